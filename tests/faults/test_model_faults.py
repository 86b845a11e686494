"""What goes wrong between us and a model's server, row by row: the network, statuses, streams, limits (F20 to F25, F30,
F35, F36, F38). Through the real loop, the real SDKs and a real socket."""

from __future__ import annotations

import email.utils
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from agent.limits import LimitsConfig
from memory.config import MemoryConfig
from memory.records import Observation, Reply, Usage
from runners.devserver.model_server import WireRequest
from runners.devserver.wire import Turn, Wire, payload
from tests.agent.bench import AnyArguments, FakeTool, Setup, bench, say
from tests.faults.model_bench import WIRES, Naps, asked, backbone_at, searching, served, texts
from tools.base import CallContext

RESET = Turn(Reply("half"), cut_after=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.sqlite"


def http_date(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("named", "low", "high"),
    [
        ("7", 7, 7),
        (http_date(7200), 120, 120),
        ("1000000000", 120, 120),
        ("-5", 1, 1),
        ("0", 1, 1),
        ("", 1.5, 2),
        ("soon", 1.5, 2),
    ],
    ids=["seconds", "date", "absurd", "negative", "zero", "missing", "nonsense"],
)
async def test_f20_rate_limit(path: Path, wire: str, named: str, low: float, high: float) -> None:
    """Retried, waiting as long as the server says, within 1 to 120 seconds."""
    run = await asked(path, [Turn(status=429, retry_after=named), "done"], wire, max_retries=2)
    assert (run.outcome.status, run.outcome.answer) == ("completed", "done")
    assert len(run.requests) == 2, "the SDK does not retry it as well"
    assert low <= run.naps[0] <= high


async def test_f20_patience_is_bounded(path: Path) -> None:
    run = await asked(path, lambda _: Turn(status=429, retry_after="20"), "openai", patience_s=50.0)
    assert run.outcome.status == "model_unavailable"
    assert len(run.requests) == 3
    assert len(run.steps) == 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [500, 502, 503, 504, 529, 408, 409])
async def test_f21_server_errors_are_retried(path: Path, wire: str, status: int) -> None:
    run = await asked(path, [Turn(status=status, retry_after="0.01"), "done"], wire, max_retries=2)
    assert (run.outcome.status, len(run.requests)) == ("completed", 2)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (400, "request_rejected"),
        (401, "auth"),
        (403, "auth"),
        (404, "model_unavailable"),
        (422, "request_rejected"),
    ],
)
async def test_f22_what_no_retry_can_mend(path: Path, wire: str, status: int, ended: str) -> None:
    run = await asked(path, [Turn(status=status, error="no")], wire, max_retries=5)
    assert (run.outcome.status, len(run.requests), run.naps) == (ended, 1, [])
    assert run.outcome.message


async def ended_at(path: Path, url: str, wire: str) -> tuple[str, str]:
    """Status and message of a run whose server is at this address."""
    async with bench(path, backbone_at(url, wire, Naps(), timeout_s=2.0)) as b:
        outcome = await b.session.ask("q?")
    return outcome.status, outcome.message


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f23_connection_refused(path: Path, wire: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    status, message = await ended_at(path, url, wire)
    assert status == "model_unavailable"
    assert "cannot reach" in message and "base_url" in message


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f23_name_not_resolved(path: Path, wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    status, message = await ended_at(path, "http://gone.localhost", wire)
    assert status == "model_unavailable"
    assert "cannot reach" in message


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f23_no_tls_there(path: Path, wire: str) -> None:
    async with served(path, [], wire) as (_, server, _naps):
        status, message = await ended_at(path.with_name("other"), server.url.replace("http:", "https:"), wire)
    assert status == "model_unavailable"
    assert "cannot reach" in message


@pytest.mark.parametrize("wire", WIRES)
async def test_f23_reset_then_well(path: Path, wire: str) -> None:
    run = await asked(path, [RESET, "done"], wire)
    assert (run.outcome.status, len(run.requests), len(run.naps)) == ("completed", 2, 1)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f23_silence_ends_at_the_timeout(path: Path, wire: str) -> None:
    run = await asked(path, [Turn(Reply("text"), hang_after=30), "done"], wire, timeout_s=0.3)
    assert (run.outcome.status, len(run.requests)) == ("completed", 2)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f23_a_drip_ends_at_the_deadline(path: Path, wire: str) -> None:
    """Bytes come, so that no read ever times out; the whole call does."""
    run = await asked(path, [Turn(Reply("text"), drip_s=0.05)], wire, deadline_s=0.5)
    assert run.outcome.status == "model_unavailable"
    assert "no whole reply within 0.5 s" in run.outcome.message


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("chunked", [True, False])
async def test_f24_a_cut_stream_is_never_half_executed(path: Path, wire: Wire, chunked: bool) -> None:
    """Cut in the middle of a tool call: discarded whole, asked again; the tool runs once, with the whole arguments."""
    call = Reply("I look.", tool_calls=(searching("the whole query"),))
    size = len(payload(Turn(call), wire, "scripted", stream=True))
    cuts = [Turn(call, cut_after=size * part // 7, chunked=chunked) for part in (2, 6)]
    tool = FakeTool("search", ["found"])
    run = await asked(path, [*cuts, call, "done"], wire, [tool])
    assert (run.outcome.status, len(run.requests), len(tool.calls)) == ("completed", 4, 1)
    assert run.steps[0].calls[0].arguments == {"q": "the whole query"}


class Patient(FakeTool):
    """Answers whatever it is asked, and differently each time."""

    async def run(self, arguments: AnyArguments, context: CallContext) -> Observation:
        self.outcomes.append(f"found {len(self.calls)}")
        return await super().run(arguments, context)


@pytest.mark.nightly
@pytest.mark.parametrize(("wire", "every"), [("openai", 1), ("anthropic", 1), ("responses", 3)])
async def test_f24_a_session_whose_streams_are_cut_at_every_byte(path: Path, wire: Wire, every: int) -> None:
    """Two cut replies, then a whole one, and so on to the last byte, framed so that a cut looks like the end: each
    reply is carried out whole or not at all, and no more than once."""
    size = len(payload(Turn(looking(0)), wire, "scripted", stream=True))
    turns: list[Turn] = []
    for at in range(0, size, 2 * every):
        turns += [Turn(looking(len(turns) + n), cut_after=at + n * every, chunked=False) for n in (0, 1)]
        turns.append(Turn(looking(len(turns))))
    tool = Patient("search")
    setup = Setup(policy="last-k", memory=MemoryConfig(budget=2_000))
    run = await asked(path, [*turns, "done"], wire, [tool], setup)
    assert (run.outcome.status, len(run.requests)) == ("completed", len(turns) + 1)
    done = [int(str(call.arguments["q"]).removeprefix("query ")) for step in run.steps for call in step.calls]
    assert len(tool.calls) == len(done) and done == sorted(set(done))
    assert [n for n, turn in enumerate(turns) if turn.cut_after is None and n not in done] == []
    # what was carried out although it was cut had lost no more than what follows the reply itself
    assert all((turns[n].cut_after or size) > 0.6 * size for n in done)


def looking(number: int) -> Reply:
    """A call of fixed size, told from every other one."""
    return Reply("I look.", tool_calls=(searching(f"query {number:05}"),))


@pytest.mark.parametrize("wire", WIRES)
async def test_f24_no_end_marker(path: Path, wire: str) -> None:
    run = await asked(path, [Turn(Reply("Oslo is"), end=False), "Oslo is the capital"], wire)
    assert run.outcome.answer == "Oslo is the capital"
    assert len(run.steps) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_f25_an_error_inside_a_good_answer(path: Path, wire: str) -> None:
    half = Turn(Reply("half", tool_calls=(searching(),)), error="Overloaded", error_type="overloaded_error")
    run = await asked(path, [half, half, "done"], wire)
    assert (run.outcome.status, run.outcome.answer, len(run.requests)) == ("completed", "done", 3)
    assert 0.7 < run.naps[0] < run.naps[1]


WORDINGS = [
    "This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens.",
    "prompt is too long: {size} tokens > {limit} maximum",
    "input length and `max_tokens` exceed context limit: {size} + 4096 > {limit}, decrease input length",
    "string_above_max_length",
    "the request exceeds the available context size, try increasing it",
]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("wording", WORDINGS, ids=["openai", "anthropic", "with-output", "code", "llamacpp"])
async def test_f30_a_context_too_long(path: Path, wire: str, wording: str) -> None:
    """The true limit is below what is configured: ever smaller requests, at most six, and what was learned holds."""
    page = "The northern bridge was rebuilt in 1831 and cost 2000 crowns. " * 90
    limit = 6_500
    sizes: list[int] = []

    def answer(request: WireRequest) -> Turn | Reply | str:
        size = sum(map(len, texts(dict(request.body)))) // 4
        if size > limit:
            sizes.append(size)
            return Turn(status=400, error=wording.format(size=size, limit=limit), error_type="invalid_request_error")
        finished = len(sizes) >= 1
        return "done" if finished else Reply("", tool_calls=(searching(str(len(request.body["messages"]))),))  # type: ignore[arg-type]

    tool = FakeTool("search", [page] * 8)
    tool.outcomes.extend([])
    async with served(path, answer, wire, [tool]) as (b, server, _):
        outcome = await b.session.ask("q?")
        learned = b.loop.window.learned
        tool.outcomes.clear()
    assert outcome.status == "completed", outcome.message
    assert 1 <= len(sizes) <= 5
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    assert learned.ceiling is not None
    if "{limit}" in wording:
        assert learned.window == limit
    assert len(server.requests) >= len(sizes) + 2


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_f30_a_context_that_cannot_shrink(path: Path, wire: str) -> None:
    run = await asked(path, lambda _: Turn(status=413, error="request too large"), wire)
    assert run.outcome.status == "context_exhausted"
    assert len(run.requests) <= 6


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(0, None, None, 0), Usage(-7, None, None, -1), Usage(10**13, output=9)]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_f35_usage_that_cannot_be(path: Path, wire: str, usage: Usage) -> None:
    """It calibrates nothing, and the token limit falls back to our own count."""
    script = lambda _: Reply("", tool_calls=(searching(),), usage=usage)  # noqa: E731
    tool = FakeTool("search", ["x"] * 9)
    setup = Setup(LimitsConfig(max_tokens=4_000))
    async with served(path, script, wire, [tool], setup) as (b, server, _):
        outcome = await b.session.ask("q?")
        stored = [row.usage for row in await b.store.usage()]
        tool.outcomes.clear()
    assert outcome.status == "budget"
    assert "max_tokens" in outcome.message
    assert 2 <= len(server.requests) <= 9
    assert all(row.input_total is None for row in stored)


@pytest.mark.parametrize("wire", WIRES)
async def test_f36_a_model_that_is_gone(path: Path, wire: str) -> None:
    """The session stops by name and goes on with another model."""
    gone = Turn(status=404, error="The model `m` does not exist", error_type="not_found_error")
    run = await asked(path, [Reply("", tool_calls=(searching(),)), gone], wire, [FakeTool("search", ["found"])])
    assert run.outcome.status == "model_unavailable"
    assert "does not exist" in run.outcome.message
    async with served(path, ["done [c1]"], wire, model="other") as (b, server, _):
        outcome = await b.session.go_on()
    assert (outcome.status, outcome.steps) == ("completed", 2)
    assert server.requests[0].body["model"] == "other"


async def test_f38_time_ends_a_retry_storm(path: Path) -> None:
    from runners.devserver.model_server import ModelServer

    with ModelServer(lambda _: Turn(status=429, retry_after="30"), allow_unused=True) as server:
        backbone = backbone_at(server.url, "openai")  # real waits
        async with bench(path, backbone, [], Setup(LimitsConfig(max_seconds=0.4))) as b:
            outcome = await b.session.ask("q?")
    assert outcome.status == "budget"
    assert "max_seconds" in outcome.message
    assert len(server.requests) == 1


async def test_f38_tokens_of_broken_replies_count(path: Path) -> None:
    broken = Turn(Reply("half", usage=Usage(input_total=900, output=5)), end=False)
    whole = Reply("", tool_calls=(searching(),), usage=Usage(input_total=900, output=5))
    setup = Setup(LimitsConfig(max_tokens=2_500))
    run = await asked(path, [broken, broken, whole], "anthropic", [FakeTool("search", ["x"])], setup)
    assert run.outcome.status == "budget"
    assert run.outcome.usage.input_total == 2_700


async def test_f38_what_only_broken_replies_cost_counts_too(path: Path) -> None:
    broken = Turn(Reply("half", usage=Usage(input_total=900, output=5)), end=False)
    setup = Setup(LimitsConfig(max_tokens=2_500))
    async with served(path, [broken] * 3, "anthropic", [], setup) as (b, _, _naps):
        first = await b.session.ask("q?")
        again = await b.session.go_on()
        rows = await b.store.usage()
    assert (first.status, again.status) == ("model_unavailable", "budget")
    assert [(row.purpose, row.usage.input_total) for row in rows] == [("lost", 2_700)]


async def test_answers_arrive_over_every_wire(path: Path) -> None:
    for wire in WIRES:
        run = await asked(path.with_name(wire), [say("Oslo")], wire)
        assert run.outcome.answer == "Oslo"
