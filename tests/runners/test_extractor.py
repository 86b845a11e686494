"""A session whose long pages are read by a model: who is asked what, and that it is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory.records import Reply, ToolCall, Usage
from runners.devserver.model_server import ModelServer, WireRequest
from tests.runners.command import Command

LONG = "# Varden\n\n" + "".join(f"Line {n} says nothing of the harbour wall or its keepers.\n" for n in range(300))
FACT = "The harbour of Varden was rebuilt in 1831."


def test_pages_are_read_for_a_goal(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "varden.md").write_text(LONG + FACT + "\n")
    asked: list[str] = []

    def turn(request: WireRequest) -> Reply:
        text = json.dumps(request.body["messages"])
        if "<page>" in text:
            asked.append("extract")
            found = {"evidence": FACT, "summary": "It was rebuilt in 1831."}
            return Reply(json.dumps(found), usage=Usage(input_total=1000, output=50))
        asked.append("step")
        if "Evidence in page" in text:
            return Reply("1831 [c1]", usage=Usage(input_total=10, output=5))
        call = ToolCall("x", "visit", {"urls": ["http://corpus.local/varden.md"], "goal": "When was it rebuilt?"})
        return Reply("", tool_calls=(call,), usage=Usage(input_total=10, output=5))

    with ModelServer(turn) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        options = ("--backbone", "openai", "-c", "backbone.model=scripted", "-c", "visit.extractor=llm")
        ended = command("run", "When was it rebuilt?", "--corpus", "pages", "-q", *options)
    assert ended.code == 0, ended.err
    assert ended.report["answer"].startswith("1831")
    assert asked == ["step", "extract", "step"]
    assert ended.report["tokens"]["input_total"] == 1020
    assert ended.report["tokens"]["output"] == 60
