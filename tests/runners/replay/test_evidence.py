"""Evidence recall on dialogue memories: what is read, and what counts as shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from memory.encoders.factory import EncoderConfig
from runners.errors import UsageFault
from runners.replay.dialogues import read_all, read_dialogues
from runners.replay.evidence import READABLE, SHOWN, EvidenceJob
from runners.replay.working import Settings
from tests.runners.replay.hand import FILLER, tools, variant

TURNS = [
    {"role": "user", "content": f"My cat is called Biscuit. {FILLER}", "has_answer": True},
    {"role": "assistant", "content": f"A fine name. {FILLER}"},
    {"role": "user", "content": f"I moved to Osk. {FILLER}"},
    {"role": "assistant", "content": FILLER},
    {"role": "user", "content": "Good night."},
]
ROW = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "What is my cat called?",
    "answer": "Biscuit",
    "haystack_dates": ["2023/05/20"],
    "haystack_refs": ["r1"],
}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_long_mem_eval_by_reference(tmp_path: Path) -> None:
    write(tmp_path / "s_sessions.jsonl", {"ref": "r1", "turns": TURNS})
    abstaining = {**ROW, "question_id": "q2_abs", "haystack_refs": ["r2"]}
    write(tmp_path / "s_sessions.jsonl", {"ref": "r1", "turns": TURNS}, {"ref": "r2", "turns": TURNS[1:]})
    write(tmp_path / "s_questions.jsonl", ROW, abstaining)
    (found,) = read_dialogues(tmp_path)
    assert [step.kind for step in found.recording.steps] == ["turn"] * 5
    assert found.recording.steps[0].thought.startswith("[2023/05/20] user: My cat")
    (asked,) = found.asked
    assert (asked.evidence, asked.answer, asked.kind) == ((1,), "Biscuit", "single-session-user")


def test_long_mem_eval_inline(tmp_path: Path) -> None:
    row = {**ROW, "haystack_refs": [], "haystack_sessions": [TURNS]}
    (found,) = read_dialogues(write(tmp_path / "oracle.jsonl", row))
    assert found.asked[0].evidence == (1,)
    path = tmp_path / "upstream.json"
    path.write_text(json.dumps([row]))
    assert next(iter(read_dialogues(path))) == found


def test_a_missing_session_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"q\.jsonl:1: haystack_refs: no session 'r1'"):
        list(read_dialogues(write(tmp_path / "q.jsonl", ROW)))


def test_locomo(tmp_path: Path) -> None:
    conversation = {
        "speaker_a": "Ann",
        "session_1_date_time": "8 May",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "Hello"},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "I sold the boat", "blip_caption": "a red boat"},
        ],
    }
    qa = [
        {"question": "Who sold the boat?", "answer": "Bo", "evidence": ["D1:2; D9:9"], "category": 4},
        {"question": "Lost?", "answer": "x", "evidence": ["D7:1"], "category": 1},
        {"question": "Trap?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5},
    ]
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": qa}]))
    (found,) = read_dialogues(path)
    assert found.recording.steps[1].thought == "[8 May] Bo: I sold the boat a red boat"
    assert [(asked.name, asked.kind, asked.evidence) for asked in found.asked] == [("q0", "category-4", (2,))]


def test_all_that_is_asked(tmp_path: Path) -> None:
    """What cannot be answered is asked too, and broken references are named."""
    turns = [{"speaker": "Ann", "dia_id": f"D1:{number}", "text": "Hello"} for number in (1, 2, 3)]
    conversation = {"session_1": turns, "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "Hi"}]}
    qa = [
        {"question": "Several?", "answer": 2022, "evidence": ["D1:2; D2:1", "D:1:3", "D01:01"], "category": 2},
        {"question": "Lost?", "answer": "x", "evidence": ["D", "D9:9"], "category": 1},
        {"question": "Trap?", "adversarial_answer": "the cat", "evidence": ["D1:1"], "category": 5},
        {"question": "None?", "answer": "x", "evidence": [], "category": 3},
    ]
    (tmp_path / "locomo10.json").write_text(json.dumps([{"conversation": conversation, "qa": qa}]))
    (found,) = read_all(tmp_path)
    several, lost, trap, none = found.asked
    assert (several.answer, several.evidence, several.unresolved) == ("2022", (1, 2, 3, 4), ())
    assert (lost.evidence, lost.unresolved) == ((), ("D", "D9:9"))
    assert (trap.answer, trap.evidence, trap.answerable) == ("the cat", (1,), False)
    assert none.evidence == none.unresolved == ()


def test_a_question_is_unanswerable_by_its_id(tmp_path: Path) -> None:
    row = {**ROW, "question_id": "q7_abs", "question_date": "2023/06/01", "haystack_refs": []}
    path = write(tmp_path / "q.jsonl", {**row, "haystack_sessions": [TURNS]})
    ((asked,),) = (found.asked for found in read_all(path))
    assert (asked.answerable, asked.evidence, asked.asked_on) == (False, (1,), "2023/06/01")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.jsonl", '{"question_id": "q1"}', "q.jsonl:1: question: field required"),
        ("q.jsonl", "[1]", "not a JSON object"),
        ("q.jsonl", json.dumps({"question_id": "q1", "question": "?"}), "neither haystack_sessions nor haystack_refs"),
        (
            "l.json",
            '[{"conversation": {"session_1": [{"text": "no speaker"}]}, "qa": []}]',
            "not a LoCoMo conversation",
        ),
        ("l.json", '{"a": 1}', "a list of conversations or questions expected"),
        ("l.json", "[", "not JSON"),
        ("readme.txt", "", "no questions of LongMemEval or LoCoMo"),
    ],
)
def test_what_is_no_memory_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageFault, match=re.escape(said)):
        list(read_all(tmp_path if name == "readme.txt" else tmp_path / name))


def test_of_two_files_one_must_be_named(tmp_path: Path) -> None:
    for name in ("locomo10.json", "locomo_half.json"):
        (tmp_path / name).write_text("[]")
    with pytest.raises(UsageFault, match=r"locomo10\.json and locomo_half\.json"):
        list(read_all(tmp_path))


@pytest.mark.parametrize(("budget", "shown"), [(100_000, 1.0), (30, 0.0)])
def test_shown_and_readable(tmp_path: Path, budget: int, shown: float) -> None:
    row = {**ROW, "haystack_refs": [], "haystack_sessions": [TURNS]}
    (found,) = read_dialogues(write(tmp_path / "q.jsonl", row))
    job = EvidenceJob(found.recording, ((0, variant("react", budget)),), found.asked)
    (outcome,) = job.run(tools(), Settings(EncoderConfig()))
    values = {(s.measure, s.stratum): s.value for s in outcome.samples}
    assert values[SHOWN, "all"] == values[SHOWN, "single-session-user"] == shown
    assert values[READABLE, "all"] == shown


def test_an_answer_that_no_evidence_states_is_not_counted(tmp_path: Path) -> None:
    row = {**ROW, "answer": "a tabby", "haystack_refs": [], "haystack_sessions": [TURNS]}
    (found,) = read_dialogues(write(tmp_path / "q.jsonl", row))
    job = EvidenceJob(found.recording, ((0, variant("react", 100_000)),), found.asked)
    (outcome,) = job.run(tools(), Settings(EncoderConfig()))
    assert {s.measure for s in outcome.samples} == {SHOWN}
