"""Readers and judges: what they are asked, what is kept, what a dead one does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.backbones.embedded import EmbeddedBackbone
from agent.backbones.factory import BackboneConfig
from agent.backbones.scripted import ScriptedBackbone
from agent.errors import AuthFailed, Unavailable
from memory.records import Request
from runners.memory_eval.answers import UNANSWERABLE
from runners.memory_eval.readers import Answer, Grader, Kept, Model, Reader
from runners.memory_eval.rubrics import judge_prompt, rubric, verdict
from runners.replay.dialogues import Asking
from runners.scoring.judge import Grade

CAT = Asking("q1", "single-session-user", "What is the name of my cat?", "Biscuit", (1,), asked_on="2023/06/01")
CONTEXT = "### c1 full\nuser: My cat is called Biscuit.\n### c2 full\nassistant: The canal was frozen.\n"
SCRIPTED = Model("scripted", BackboneConfig(kind="scripted", model="m"))
EMBEDDED = Model("embedded", BackboneConfig())


async def test_a_model_is_asked_once(tmp_path: Path) -> None:
    backbone = ScriptedBackbone([" Biscuit \n", "a canal"])
    path = tmp_path / "kept" / "a.jsonl"
    reader = Reader(SCRIPTED, backbone, Kept(path))
    assert await reader.answer(CAT, CONTEXT) == Answer("Biscuit")
    assert await reader.answer(CAT, CONTEXT) == Answer("Biscuit")
    assert await Reader(SCRIPTED, backbone, Kept(path)).answer(CAT, CONTEXT) == Answer("Biscuit")
    (request,) = backbone.calls
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[1].content.startswith(CONTEXT)
    assert "asked on 2023/06/01" in request.messages[1].content
    assert CAT.answer not in request.messages[1].content.removeprefix(CONTEXT)
    assert await reader.answer(CAT, CONTEXT + "more") == Answer("a canal")


async def test_another_reader_is_asked_anew(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.jsonl")
    await Reader(SCRIPTED, ScriptedBackbone(["Biscuit"]), kept).answer(CAT, CONTEXT)
    other = Model("scripted", BackboneConfig(kind="scripted", model="other"))
    assert await Reader(other, ScriptedBackbone(["Crumb"]), kept).answer(CAT, CONTEXT) == Answer("Crumb")


async def test_a_call_that_failed_is_not_kept(tmp_path: Path) -> None:
    backbone = ScriptedBackbone([Unavailable("down"), "Biscuit"])
    reader = Reader(SCRIPTED, backbone, Kept(tmp_path / "a.jsonl"))
    assert (await reader.answer(CAT, CONTEXT)).failed == "Unavailable: down"
    assert await reader.answer(CAT, CONTEXT) == Answer("Biscuit")


async def test_without_a_key_nothing_goes_on(tmp_path: Path) -> None:
    with pytest.raises(AuthFailed):
        await Reader(SCRIPTED, ScriptedBackbone([AuthFailed("no")]), Kept(None)).answer(CAT, CONTEXT)


async def test_a_context_beyond_the_window_is_not_sent() -> None:
    backbone = ScriptedBackbone([], window=1_024)
    answer = await Reader(SCRIPTED, backbone, Kept(None)).answer(CAT, "word " * 2_000)
    assert "the reader takes 768" in answer.failed
    assert not backbone.calls


async def test_the_embedded_reader_reads_turns() -> None:
    reader = Reader(EMBEDDED, EmbeddedBackbone(), Kept(None))
    assert "Biscuit" in (await reader.answer(CAT, CONTEXT)).text
    assert await reader.answer(CAT, "### c1 turn, 20 tokens\n") == Answer(UNANSWERABLE)


@pytest.mark.parametrize("damage", [b"", b"\n", b'["key"', b"\xff\xfe\n", b'{"a": 1}\n', b"[1]\n"])
def test_a_damaged_file_of_answers_costs_asking_again(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "a.jsonl"
    Kept(path).put("one", "1")
    with path.open("ab") as file:
        file.write(damage)
    kept = Kept(path)
    kept.put("two", "2")
    again = Kept(path)
    assert (again.get("one"), again.get("two"), again.get("key")) == ("1", "2", None)


def test_a_disk_that_takes_nothing_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Kept(tmp_path / "file" / "a.jsonl")
    kept.put("one", "1")
    assert kept.get("one") == "1"


def test_keys_are_never_shown() -> None:
    model = Model("openai", BackboneConfig(), {"OPENAI_API_KEY": "sk-secret"})
    assert "sk-secret" not in repr(model)
    assert "sk-secret" not in model.id


@pytest.mark.parametrize(
    ("kind", "answerable", "words"),
    [
        ("single-session-user", True, "every step that leads"),
        ("single-session-assistant", True, "every step that leads"),
        ("multi-session", True, "only a part"),
        ("temporal-reasoning", True, "off by one"),
        ("knowledge-update", True, "newest value"),
        ("single-session-preference", True, "own circumstances"),
        # by id, whatever the type
        ("temporal-reasoning", False, "cannot be answered"),
        ("single-session-preference", False, "cannot be answered"),
        ("category-4", True, "every step that leads"),
    ],
)
def test_the_rubric_goes_by_type_and_id(kind: str, answerable: bool, words: str) -> None:
    asked = Asking("q", kind, "Which one?", "that one", (1,), answerable=answerable)
    assert words in rubric(asked)
    assert (
        len({rubric(Asking("q", other, "", "", ())) for other in ("temporal-reasoning", "knowledge-update", "x")}) == 3
    )
    prompt = judge_prompt(asked, "my response")
    assert all(text in prompt for text in ("Which one?", "that one", "my response", words))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("yes", True),
        ("Yes.", True),
        ("**No**", False),
        # upstream finds "yes" in these
        ("No; yesterday is not the same day", False),
        ("The answer would be no.", False),
        ("", None),
        ("perhaps", None),
        ("yes or no", None),
    ],
)
def test_a_verdict_is_a_word_of_its_own(reply: str, said: bool | None) -> None:
    found = verdict(reply)
    assert (None if found is None else found.correct) is said


def graded_by(judge: Callable[[str], str], backbones: list[ScriptedBackbone], path: Path) -> Grader:
    def reply(request: Request) -> str:
        return judge(request.messages[-1].content)

    backbones.append(ScriptedBackbone(reply))
    return Grader(SCRIPTED, backbones[-1], Kept(path))


@pytest.mark.parametrize(("answer", "grade"), [("Biscuit", "correct"), ("Crumb", "incorrect"), ("", "incorrect")])
async def test_planted_wrong_answers_are_caught(tmp_path: Path, answer: str, grade: Grade) -> None:
    made: list[ScriptedBackbone] = []

    def judge(prompt: str) -> str:
        return "yes" if "Response: Biscuit" in prompt else "no"

    path = tmp_path / "g.jsonl"
    assert await graded_by(judge, made, path).grade(CAT, answer) == grade
    assert await graded_by(judge, made, path).grade(CAT, answer) == grade
    assert [len(backbone.calls) for backbone in made] == [1, 0]
    assert json.loads(path.read_text().split("\n")[1])[1] == grade


async def test_a_dead_judge_leaves_it_ungraded_and_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    dead = Grader(SCRIPTED, ScriptedBackbone([Unavailable("down")]), Kept(path))
    assert await dead.grade(CAT, "Biscuit") == "ungraded"
    silent = Grader(SCRIPTED, ScriptedBackbone(["well", "hm"]), Kept(path))
    assert await silent.grade(CAT, "Biscuit") == "ungraded"
    assert await Grader(SCRIPTED, ScriptedBackbone(["yes"]), Kept(path)).grade(CAT, "Biscuit") == "correct"
