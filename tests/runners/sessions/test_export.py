"""sessions export: every format, read back where a reader exists; no secret leaves."""

from __future__ import annotations

import asyncio
import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.records import Chunk, Observation, Step, ToolCall
from memory.store.sqlite import SqliteStore
from runners.environment import Secret
from runners.folders import SessionFolder, find_folder
from runners.redact import Redactor
from runners.replay.readers.files import read_files
from runners.sessions.content import read_head, read_steps
from runners.sessions.export import export
from runners.sessions.formats import SUFFIXES, WRITERS
from tests.memory.sessions import open_memory, page, visit_step
from tests.memory.store.test_upgrade import STORES, unpacked
from tests.runners.command import Command
from tests.runners.sessions.made import QUESTIONS, make_session, steps

SECRET = 's3cr3t-canary-"\\-value'
SHAPED = "sk-proj-abcdefghijklmnopqrstuvwx"


def exported(command: Command, form: str, *more: str) -> Path:
    ended = command("sessions", "export", "a", "--format", form, *more, report=False)
    assert ended.code == 0, ended.err
    return Path(ended.out.strip())


def test_own_round_trip(command: Command) -> None:
    make_session(command.home, "a")
    path = exported(command, "jsonl")
    assert path.name == "a.jsonl"
    (run,) = read_files([path]).recordings
    assert list(run.steps) == steps()
    assert [(q.text, q.from_step) for q in run.questions] == [(QUESTIONS[0], 1), (QUESTIONS[1], 8)]


def test_alibaba_round_trip(command: Command) -> None:
    """One run a question; a step of two calls becomes two."""
    make_session(command.home, "a")
    first, second = read_files([exported(command, "alibaba")]).recordings
    assert (first.question_at(1).text, second.question_at(1).text) == QUESTIONS
    made = steps()
    assert [step.kind for step in first.steps] == ["act"] * 6 + ["note", "answer"]
    calls = [(call.name, dict(call.arguments)) for step in first.steps for call in step.calls]
    assert calls == [(call.name, dict(call.arguments)) for step in made[:7] for call in step.calls]
    texts = [item.text for step in first.steps for item in step.observations]
    assert texts == [item.text for step in made[:7] for item in step.observations]
    assert first.steps[-1].answer == made[6].answer and first.steps[0].thought == "look"
    rows = [json.loads(line) for line in Path("a.alibaba.jsonl").read_text().splitlines()]
    assert [row["termination"] for row in rows] == ["answer", "completed"]
    assert rows[0]["prediction"] == made[6].answer


def test_atif_round_trip(command: Command) -> None:
    make_session(command.home, "a")
    path = exported(command, "atif")
    (run,) = read_files([path]).recordings
    made = steps()
    assert run.id == "a"
    assert [(q.text, q.from_step) for q in run.questions] == [(QUESTIONS[0], 1), (QUESTIONS[1], 8)]
    assert [(s.number, s.thought, s.calls, s.answer, s.task) for s in run.steps] == [
        (s.number, s.thought, s.calls, s.answer, s.task) for s in made
    ]
    assert [[o.text for o in s.observations] for s in run.steps] == [[o.text for o in s.observations] for s in made]
    value = json.loads(path.read_text())
    assert value["schema_version"] == "ATIF-v1.7"
    assert [row["step_id"] for row in value["steps"]] == list(range(1, 11))
    assert value["final_metrics"] == {
        "total_prompt_tokens": 800, "total_completion_tokens": 80, "total_cost_usd": 4.0, "total_steps": 10
    }  # fmt: skip
    assert value["steps"][1]["metrics"] == {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.5}
    for row in value["steps"]:
        ids = {call["tool_call_id"] for call in row.get("tool_calls", [])}
        results = row.get("observation", {"results": []})["results"]
        assert {result["source_call_id"] for result in results if "source_call_id" in result} <= ids


def test_openai_messages(command: Command) -> None:
    make_session(command.home, "a")
    path = exported(command, "openai")
    (run,) = read_files([path]).recordings
    acts = [step for step in run.steps if step.calls]
    assert [step.calls for step in acts] == [step.calls for step in steps() if step.calls]
    # what the session itself said is a user message, as a question is: a reader cannot tell them apart
    assert [(s.thought, [o.text for o in s.observations if o.call_id]) for s in acts] == [
        (s.thought, [o.text for o in s.observations]) for s in steps() if s.calls
    ]
    assert run.questions[0].text == QUESTIONS[0] and steps()[6].answer in [step.answer for step in run.steps]
    (line,) = path.read_text().splitlines()
    messages = json.loads(line)["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == [
        QUESTIONS[0], "could not be read", QUESTIONS[1]
    ]  # fmt: skip
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            for call in message.get("tool_calls", []):
                assert call["type"] == "function" and isinstance(json.loads(call["function"]["arguments"]), dict)
                waiting.append(call["id"])
    assert not waiting


def test_tar_round_trip(command: Command, tmp_path: Path) -> None:
    """Unpacked it is a session again: every context as it was."""
    folder = SessionFolder(command.home / "runs" / "a")
    folder.path.mkdir(parents=True)

    async def fill() -> list[str]:
        async with open_memory(folder.store) as memory:
            await memory.ask("Which harbours were rebuilt?")
            for number in range(1, 9):
                await memory.assemble(3_000)
                await memory.ingest(visit_step(number, page(number)))
            return [one.record.render_hash for one in await memory.rebuild_all()]

    before = asyncio.run(fill())
    (folder.path / "files").mkdir()
    (folder.path / "files" / "table.csv").write_text("a,b\n")
    (folder.path / "files" / "link").symlink_to("/etc/passwd")
    path = exported(command, "tar", "--out", str(tmp_path / "a.tar"))
    with tarfile.open(path) as tar:
        assert tar.getnames() == ["a/session.sqlite", "a/files/table.csv"]
        tar.extractall(tmp_path / "other" / "runs", filter="data")
    again = find_folder(tmp_path / "other", "a")
    assert list(read_files([again.path]).recordings[0].steps) == list(read_files([folder.path]).recordings[0].steps)

    async def rebuilt() -> list[tuple[str, bool]]:
        async with open_memory(again.store) as memory:
            return [(one.record.render_hash, one.same) for one in await memory.rebuild_all()]

    assert asyncio.run(rebuilt()) == [(one, True) for one in before]


def leaky() -> list[Step]:
    """A secret, and something that looks like one, in every place that a step has."""
    bad = f"x {SECRET} y\n{SHAPED} z"
    made = [
        Step(
            1,
            thought=bad,
            calls=(ToolCall("s1.0", "python", {"code": bad, "more": [{bad: bad}]}),),
            observations=(Observation("s1.0", "python", f"{bad} " * 400), Observation("", "note", bad)),
        ),
        Step(2, "answer", answer=bad, question=bad),
    ]
    return [replace(step, created=1.0) for step in made]


@pytest.mark.parametrize("form", SUFFIXES)
def test_no_secret_leaves(command: Command, monkeypatch: pytest.MonkeyPatch, form: str, tmp_path: Path) -> None:
    folder = make_session(command.home, "a", leaky())
    folder.config.write_text(f"key: {SECRET}\n")
    (folder.path / "blob.bin").write_bytes(b"\xff" + SECRET.encode())
    monkeypatch.setenv("CANARY_API_KEY", SECRET)
    path = exported(command, form)
    data = path.read_bytes()
    parts = (SECRET, json.dumps(SECRET)[1:-1], json.dumps(json.dumps(SECRET)[1:-1])[1:-1], SHAPED, "s3cr3t-canary")
    assert not [part for part in parts if part.encode() in data]
    assert b"***" in data
    if form == "tar":
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path / "out", filter="data")

        async def whole() -> None:
            async with await SqliteStore.open(tmp_path / "out" / "a" / "session.sqlite", create=False) as store:
                chunks = await store.chunks([1, 2])
                assert "s3cr3t" not in repr(chunks) and SHAPED not in repr(chunks) and "***" in repr(chunks)

        asyncio.run(whole())


def test_at_no_moment_the_disk_has_more_of_a_secret(command: Command, tmp_path: Path) -> None:
    """Wherever an export to tar is killed, what it leaves beside its target holds none; and the next one takes it
    away."""
    made = [replace(step, thought=f"{SHAPED} {number} " * 300) for number, step in enumerate(leaky() * 20, start=1)]
    folder = make_session(command.home, "a", [replace(step, number=at) for at, step in enumerate(made, start=1)])
    assert SHAPED.encode() in folder.store.read_bytes()
    seen: set[str] = set()

    class Watching(Redactor):
        def __call__(self, text: str) -> str:
            for path in out.iterdir():
                seen.add(path.name)
                assert SHAPED.encode() not in path.read_bytes()
            return super().__call__(text)

    out = tmp_path / "out"
    out.mkdir()
    left = [out / f".a.tar.0123.{ending}" for ending in ("part", "part-store", "part-store.89ab.new-wal")]
    for path in left:
        path.write_bytes(b"of one that was killed")
    export(folder, "tar", str(out / "a.tar"), Watching([], shapes=True))
    assert any(".part-store" in name for name in seen)
    assert [path.name for path in out.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("packed", STORES, ids=lambda store: store.name)
def test_a_store_of_an_older_schema_is_exported_whole(command: Command, packed: Path, tmp_path: Path) -> None:
    folder = make_session(command.home, "a")
    shutil.move(unpacked(packed, tmp_path), folder.store)
    with tarfile.open(exported(command, "tar")) as tar:
        tar.extractall(tmp_path / "out", filter="data")

    async def chunks(path: Path) -> list[Chunk]:
        async with await SqliteStore.open(path, create=False, read_only=True) as store:
            assert [finding for finding in await store.verify() if finding.problems] == []
            return await store.chunks(range(1, await store.last_step() + 1))

    assert asyncio.run(chunks(tmp_path / "out" / "a" / "session.sqlite")) == asyncio.run(chunks(folder.store))


def test_nothing_is_overwritten_and_nothing_half_is_left(command: Command) -> None:
    make_session(command.home, "a")
    Path(".a.jsonl.0123.part").write_text("of an export that was killed")
    path = exported(command, "jsonl")
    before = path.read_bytes()
    ended = command("sessions", "export", "a", report=False)
    assert ended.code == 2 and "exists already" in ended.err and path.read_bytes() == before
    assert command("sessions", "export", "a", "--format", "tar", "--out", "-", report=False).code == 2
    assert command("sessions", "export", "a", "--out", "no/such/folder", report=False).code == 2
    assert command("sessions", "export", "a", "--out", "-", report=False).out.encode() == before
    make_session(command.home, "b", [])
    assert "no step" in command("sessions", "export", "b", report=False).error
    assert sorted(p.name for p in Path().iterdir()) == ["a.jsonl", "home"]


def strings() -> st.SearchStrategy[str]:
    return st.text(max_size=40) | st.sampled_from(
        [
            "<think>",
            "</tool_call>",
            "</tool_response>",
            "<answer>",
            "\x00",
            "\ud800",
            "### c1 full",
            "```",
            "</code>",
            "\u202e",
        ]
    )


@st.composite
def sessions(draw: st.DrawFn) -> list[Step]:
    made = []
    values: Any = strings() | st.integers(-9, 9) | st.none() | st.lists(strings(), max_size=2)
    arguments = st.dictionaries(strings(), values, max_size=2)
    for number in range(1, draw(st.integers(1, 4)) + 1):
        if draw(st.booleans()):
            made.append(Step(number, "answer", draw(strings()), answer=draw(strings()), question=draw(strings())))
            continue
        calls = tuple(
            ToolCall(f"s{number}.{at}", draw(st.sampled_from(["visit", "python"])), draw(arguments))
            for at in range(draw(st.integers(0, 2)))
        )
        seen = tuple(Observation(call.id, call.name, draw(strings())) for call in calls)
        made.append(Step(number, thought=draw(strings()), calls=calls, observations=seen))
    return made


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sessions())
def test_any_text_is_exported_and_read_back(tmp_path_factory: pytest.TempPathFactory, made: list[Step]) -> None:
    """Whatever is in a session: every format is valid JSON, and its reader takes it."""
    folder = make_session(tmp_path_factory.mktemp("h"), "a", made)
    redact = Redactor([Secret(SECRET)], shapes=True)

    async def written() -> dict[str, str]:
        async with await SqliteStore.open(folder.store, create=False, read_only=True) as store:
            head = await read_head("a", store, redact)
            return {
                form: "".join([piece async for piece in writer(head, read_steps(store, head.last, redact))])
                for form, writer in WRITERS.items()
            }

    for form, text in asyncio.run(written()).items():
        assert text.isascii() or form == "alibaba"
        for line in text.splitlines():
            json.loads(line)
        target = folder.path / ("a" + SUFFIXES[form])
        target.write_text(text)
        recordings = read_files([target]).recordings
        assert sum(len(run.steps) for run in recordings) >= len(made)
