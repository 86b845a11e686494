"""Every format that is read, and what is said of what cannot be."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from memory.records import Observation, Step, ToolCall
from runners.errors import UsageFault
from runners.replay.readers.files import read_files
from runners.replay.recording import chain
from runners.trajectory import step_row
from tests.memory.sessions import open_memory, visit_step

NORMALISED = {
    "id": "run-1",
    "task": "Who built it?",
    "system": "Be brief.",
    "steps": [
        {"thought": "look", "action": "search", "args": '{"query": "who built it"}', "observation": "Ada Holm\u0000"},
        {
            "thought": "",
            "action": "visit",
            "args": '{"name": "visit", "arguments": {"url": "https://a.org/1"}}',
            "observation": "page",
        },
        {"thought": "think", "action": "message", "args": "", "observation": ""},
        {"thought": "done", "action": "final", "args": "Ada Holm", "observation": None},
    ],
}
ALIBABA = {
    "question": "Who built it?",
    "answer": "Ada Holm",
    "prediction": "Ada Holm",
    "termination": "answer",
    "messages": [
        {"role": "system", "content": "You are …"},
        {"role": "user", "content": "Who built it?"},
        {
            "role": "assistant",
            "content": "<think>look</think>\n<tool_call>\n"
            '{"name": "search", "arguments": {"query": ["a", "b"]}}\n</tool_call>',
        },
        {"role": "user", "content": "<tool_response>\nAda Holm\n</tool_response>"},
        {
            "role": "assistant",
            "content": '<tool_call>\n{"name": "PythonInterpreter", "arguments": {}}\n'
            "<code>\nprint(6)\n</code>\n</tool_call>",
        },
        {"role": "user", "content": "<tool_response>\n6\n</tool_response>"},
        {"role": "assistant", "content": "<think>so</think><answer>Ada Holm</answer>"},
    ],
}
ATIF = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s1",
    "agent": {"name": "a", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "Who built it?"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "reasoning_content": "look",
            "tool_calls": [
                {"tool_call_id": "x1", "function_name": "search", "arguments": {"q": "a"}},
                {"tool_call_id": "x2", "function_name": "visit", "arguments": {"url": "https://a.org"}},
            ],
            "observation": {
                "results": [{"source_call_id": "x2", "content": "page"}, {"source_call_id": "x1", "content": "hits"}]
            },
        },
        {"step_id": 4, "source": "user", "message": "And when?"},
        {"step_id": 5, "source": "agent", "message": "In 1911."},
    ],
}


def write(path: Path, *rows: object) -> Path:
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_normalised(tmp_path: Path) -> None:
    (run,) = read_files([write(tmp_path / "runs.jsonl.gz", NORMALISED)]).recordings
    assert (run.id, run.family, run.system, run.question_at(4).text) == ("run-1", "runs", "Be brief.", "Who built it?")
    assert [step.kind for step in run.steps] == ["act", "act", "note", "answer"]
    assert run.steps[0].calls[0].arguments == {"query": "who built it"}
    assert "\x00" not in run.steps[0].observations[0].text
    assert (run.steps[1].calls[0].name, run.steps[1].calls[0].arguments) == ("visit", {"url": "https://a.org/1"})
    assert run.steps[1].source is not None and run.steps[1].source.url == "https://a.org/1"
    assert (run.steps[3].thought, run.steps[3].answer) == ("done", "Ada Holm")


def test_alibaba(tmp_path: Path) -> None:
    (run,) = read_files([write(tmp_path / "iter1.jsonl", ALIBABA)]).recordings
    assert run.question_at(1).text == "Who built it?"
    assert run.system == "You are …"
    assert [step.kind for step in run.steps] == ["act", "act", "answer"]
    assert (run.steps[0].thought, run.steps[0].calls[0].arguments) == ("look", {"query": ["a", "b"]})
    assert run.steps[0].observations[0].text == "Ada Holm"
    assert run.steps[1].calls[0].arguments == {"code": "print(6)"}
    assert run.steps[2].answer == "Ada Holm"


@pytest.mark.parametrize("name", ["run.json", "runs.jsonl"])
def test_atif(tmp_path: Path, name: str) -> None:
    (run,) = read_files([write(tmp_path / name, ATIF)]).recordings
    assert run.id == "s1"
    assert [(q.text, q.from_step) for q in run.questions] == [("Who built it?", 1), ("And when?", 2)]
    assert [call.id for call in run.steps[0].calls] == ["s1.0", "s1.1"]
    assert {o.call_id: o.text for o in run.steps[0].observations} == {"s1.0": "hits", "s1.1": "page"}
    assert (run.steps[1].kind, run.steps[1].answer, run.steps[1].task) == ("answer", "In 1911.", 2)


def test_openai_messages(tmp_path: Path) -> None:
    """Calls with their results, what was said beside them, a second question; two calls in one message."""
    call = {"id": "a.1", "type": "function", "function": {"name": "visit", "arguments": '{"urls": ["http://x/"]}'}}
    odd = {"id": "a.2", "type": "function", "function": {"name": "python", "arguments": "not json"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call, odd]},
        {"role": "tool", "tool_call_id": "a.1", "content": "a page"},
        {"role": "tool", "tool_call_id": "a.2", "content": [{"type": "text", "text": "an error"}]},
        {"role": "user", "content": "One step is left."},
        {"role": "assistant", "content": "Ada"},
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "1851"},
    ]
    (run,) = read_files([write(tmp_path / "runs.jsonl", {"messages": messages})]).recordings
    assert run.system == "Be brief."
    assert [(q.text, q.from_step) for q in run.questions] == [("Who?", 1), ("When?", 3)]
    first, second, third = run.steps
    assert [(c.id, c.name, c.arguments) for c in first.calls] == [
        ("s1.0", "visit", {"urls": ["http://x/"]}),
        ("s1.1", "python", {"input": "not json"}),
    ]
    assert [(o.call_id, o.tool, o.text) for o in first.observations] == [
        ("s1.0", "visit", "a page"),
        ("s1.1", "python", "an error"),
        ("", "note", "One step is left."),
    ]
    assert first.observations[0].sources[0].url == "http://x/"
    assert [(s.kind, s.answer, s.task) for s in (second, third)] == [("answer", "Ada", 1), ("answer", "1851", 2)]


def test_our_trajectory(tmp_path: Path) -> None:
    call = ToolCall("s1.0", "search", {"query": "x"})
    steps = [
        Step(1, calls=(call,), observations=(Observation("s1.0", "search", "hits"),)),
        Step(2, "answer", answer="A", question="Who?"),
    ]
    (run,) = read_files([write(tmp_path / "trajectory.jsonl", *[step_row(step) for step in steps])]).recordings
    assert [(q.task, q.text, q.from_step) for q in run.questions] == [(1, "Who?", 1)]
    assert run.steps == tuple(steps)


async def test_our_session(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "session.sqlite") as memory:
        await memory.ask("Where?")
        for number in (1, 2):
            await memory.ingest(visit_step(number, "a page"))
    (run,) = (await asyncio.to_thread(read_files, [tmp_path])).recordings
    assert [step.number for step in run.steps] == [1, 2]
    assert run.questions[0].text == "Where?"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json\n", "runs.jsonl:2: not JSON"),
        ("[1, 2]\n", "runs.jsonl:2: not a JSON object"),
        ({"id": "x"}, "runs.jsonl:2: no known form"),
        ({**NORMALISED, "steps": []}, "runs.jsonl:2: steps: "),
        ({**NORMALISED, "steps": [{"action": "a", "observation": 7}]}, "runs.jsonl:2: steps.0.observation: "),
        ({**NORMALISED, "steps": "none"}, "runs.jsonl:2: steps: "),
        ({**ALIBABA, "messages": [{"role": "user", "content": "q"}]}, "runs.jsonl:2: messages: no assistant"),
        ({**ATIF, "schema_version": "ATIF-v2.0"}, "runs.jsonl:2: schema_version: "),
        ({**ATIF, "steps": [{"step_id": 1, "source": "robot"}]}, "runs.jsonl:2: steps.0.source: "),
    ],
)
def test_a_broken_line_is_named_or_counted(tmp_path: Path, line: object, said: str) -> None:
    path = write(tmp_path / "runs.jsonl", NORMALISED, line)
    with pytest.raises(UsageFault) as fault:
        read_files([path])
    assert said in str(fault.value)
    reading = read_files([path], skip_broken=True)
    assert [run.id for run in reading.recordings] == ["run-1"]
    assert len(reading.broken) == 1
    assert said in reading.broken[0]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no such file"):
        read_files([tmp_path / "none.jsonl"])
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(b"{}" * 500)[:20])
    with pytest.raises(UsageFault, match="damaged gzip"):
        read_files([tmp_path / "bad.jsonl.gz"])
    with pytest.raises(UsageFault, match="no recorded run"):
        read_files([write(tmp_path / "empty.jsonl", "\n")], skip_broken=True)


def test_runs_of_one_name_stay_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", NORMALISED, ALIBABA, NORMALISED)
    assert [run.id for run in read_files([path]).recordings] == ["run-1", "Who built it?", "run-1 ~2"]


def test_a_chain_is_one_session(tmp_path: Path) -> None:
    runs = read_files([write(tmp_path / "runs.jsonl", NORMALISED, {**NORMALISED, "id": "run-2"})]).recordings
    chained = chain(runs)
    assert [step.number for step in chained.steps] == list(range(1, 9))
    assert [(q.task, q.from_step) for q in chained.questions] == [(1, 1), (2, 5)]
    assert chained.question_at(5).task == 2
    assert chained.steps[4].calls[0].id == "s5.0"
    assert chained.steps[4].observations[0].call_id == "s5.0"
    assert chained.steps[4].task == 2
