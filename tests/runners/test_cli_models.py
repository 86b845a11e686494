"""The command line against models behind real sockets: both wire formats, Tongyi's text, Ctrl-C, two at once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.records import JsonValue, Reply, ToolCall, Usage
from runners.devserver.model_server import ModelServer, ScriptedTurn
from runners.devserver.wire import Turn
from tests.runners.command import Command, Ended, interrupt

QUESTION = "When was the harbour of Varden rebuilt?"
PAGE = "http://corpus.local/harbour.html"
ANSWER = "The harbour of Varden was rebuilt in 1831 [c2]."
USAGE = Usage(input_total=1000, cache_read=400, output=20)


def call(name: str, **arguments: JsonValue) -> Reply:
    return Reply("", tool_calls=(ToolCall("", name, arguments),), usage=USAGE)


NATIVE: list[ScriptedTurn] = [
    call("search", queries=["harbour Varden"]),
    call("visit", urls=[PAGE], goal="when it was rebuilt"),
    Reply(ANSWER, usage=USAGE),
]
READ = f'{{"name": "visit", "arguments": {{"url": ["{PAGE}"], "goal": "when it was rebuilt"}}}}'
TONGYI: list[ScriptedTurn] = [
    '<think>Look.</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["harbour Varden"]}}\n</tool_call>',
    f"<think>Read.</think>\n<tool_call>\n{READ}\n</tool_call>",
    f"<think>There it is.</think>\n<answer>{ANSWER}</answer>",
]


def options(server: ModelServer, corpus: Path, backbone: str = "openai") -> list[str]:
    url = server.url if backbone == "anthropic" else f"{server.url}/v1"
    settings = [f"backbone.base_url={url}", "backbone.model=scripted", "python.enabled=false"]
    more = [part for setting in settings for part in ("-c", setting)]
    return ["--corpus", str(corpus), "--backbone", backbone, *more]


def check(ended: Ended) -> None:
    """The run is whole: answered, cited, its passage the page's."""
    report = ended.report
    assert (ended.code, report["status"], report["answer"], report["steps"]) == (0, "completed", ANSWER, 3), ended.err
    (citation,) = report["citations"]
    assert (citation["chunk"], citation["url"], citation["found"]) == ("c2", PAGE, True)
    assert "rebuilt in 1831" in citation["quote"]


@pytest.mark.parametrize("backbone", ["openai", "anthropic"])
def test_native_tools_over_either_wire_format(command: Command, corpus: Path, backbone: str) -> None:
    """The same question through both SDKs: streamed, with native tools, the results under the calls they answer."""
    with ModelServer(NATIVE) as server:
        ended = command("run", QUESTION, "-q", *options(server, corpus, backbone))
        requests = list(server.requests)
    check(ended)
    assert [request.wire for request in requests] == [backbone] * 3
    assert all(request.body["stream"] is True for request in requests)
    assert all("glimpse" in str(request.body["tools"]) for request in requests)
    assert "rebuilt in 1831" in str(requests[2].body["messages"])
    assert re.search(r"'(tool_call_id|tool_use_id)': 's2[._]0'", str(requests[2].body["messages"]))
    assert (ended.report["tokens"]["input_total"], ended.report["tokens"]["cache_read"]) == (3000, 1200)
    assert ended.report["cost"] is None
    assert ended.report["backbone"] == backbone


def test_tongyi(command: Command, corpus: Path) -> None:
    """The same question in the text dialect: no native tools, the results as the user's words, its stop strings."""
    with ModelServer(TONGYI) as server:
        ended = command("run", QUESTION, "-q", *options(server, corpus, "vllm"))
        requests = list(server.requests)
    check(ended)
    assert not any("tools" in request.body for request in requests)
    assert all("<tool_response>" in str(request.body["stop"]) for request in requests)
    last = str(requests[2].body["messages"])
    assert "<tool_response>" in last and "rebuilt in 1831" in last


@pytest.fixture
def hanging(command: Command, corpus: Path) -> Iterator[tuple[subprocess.Popen[str], ModelServer]]:
    """A run in a process of its own, in the middle of its second model call; the script goes on for another."""
    script: list[ScriptedTurn] = [NATIVE[0], Turn(Reply("I think that"), hang_after=150), *NATIVE[1:]]
    with ModelServer(script) as server:
        process = command.start("run", QUESTION, "--out", "session", *options(server, corpus))
        try:
            assert server.reached.wait(60), (
                process.stderr.read() if process.poll() is not None and process.stderr else ""
            )
            yield process, server
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


def test_ctrl_c_leaves_a_session_that_goes_on(
    command: Command, hanging: tuple[subprocess.Popen[str], ModelServer]
) -> None:
    process, server = hanging
    ended = interrupt(process)
    assert ended.code == 130
    assert "longstride resume" in ended.err
    assert "Traceback" not in ended.err
    assert server.left.wait(10), "the connection to the model was not closed"
    shown = command("show", "session").report
    assert (shown["status"], [step["step"] for step in shown["steps"]]) == ("interrupted", [1])
    check(command("resume", "session", "-q"))
    assert command("show", "session").report["status"] == "completed"


def test_a_second_process_is_refused_with_the_pid(
    command: Command, hanging: tuple[subprocess.Popen[str], ModelServer]
) -> None:
    process, server = hanging
    refused = command("resume", "session", "-q")
    assert refused.code == 1
    assert str(process.pid) in refused.error
    assert command("show", "session").report["status"] == "open"
    assert interrupt(process).code == 130
    check(command("resume", "session", "-q"))
    assert len(server.requests) == 4


def test_ctrl_c_before_there_is_a_session(command: Command, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the corpus is still being indexed: nothing is left, and nothing is said of going on."""

    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runners.wiring.open_toolbox", interrupted)
    ended = command("run", QUESTION, "-q", "--out", "session", "--corpus", str(corpus))
    assert (ended.code, ended.err) == (130, "")
    assert not Path("session").exists()
