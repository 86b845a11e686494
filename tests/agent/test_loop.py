"""The loop: a run to an answer, failures that a model can mend, limits, guards, and models that refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.backbones.base import UnparsedCall
from agent.backbones.scripted import ScriptedBackbone
from agent.errors import (
    AuthFailed,
    BadRequest,
    BrokenStream,
    ContextTooLong,
    RateLimited,
    ScriptExhausted,
    Unavailable,
)
from agent.events import Finished, ModelReplied, StepCommitted, StepStarted, ToolFinished, ToolStarted
from agent.limits import LimitsConfig
from agent.loop import LAST_STEP
from agent.window import Learned
from memory.config import MemoryConfig
from memory.errors import BudgetTooSmall
from memory.records import JsonValue, Reply, Request, Usage
from memory.stored import UsageRow
from memory.summaries.config import SummaryConfig
from tests.agent.bench import Bench, FakeTool, Setup, act, bench, say, search
from tools.base import ToolError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.sqlite"


def texts(request: Request) -> str:
    return "\n".join(message.content for message in request.messages)


async def test_a_whole_run_to_an_answer(path: Path) -> None:
    model = ScriptedBackbone(
        [
            search("capital of Norway"),
            act(("visit", {"urls": ["http://x.test/oslo"]}), text="read it"),
            say("Oslo is the capital [c2]."),
        ]
    )
    tools = [
        FakeTool("search", ["1. [Oslo](http://x.test/oslo)"]),
        FakeTool("visit", ["Oslo is the capital of Norway."]),
    ]
    setup = Setup(summaries=SummaryConfig(publish="lockstep"))
    async with bench(path, model, tools, setup) as b:
        outcome = await b.session.ask("What is the capital of Norway?")
        steps = await b.steps()
        usage = await b.store.usage()
    assert (outcome.status, outcome.answer, outcome.message) == ("completed", "Oslo is the capital [c2].", "")
    assert [step.kind for step in steps] == ["act", "act", "answer"]
    assert steps[1].thought == "read it"
    assert steps[2].question == "What is the capital of Norway?"
    assert [call.id for step in steps for call in step.calls] == ["s1.0", "s2.0"]
    assert (outcome.citations[0].url, outcome.citations[0].quote) == (
        "http://x.test/oslo",
        "Oslo is the capital of Norway.",
    )
    assert [row.step for row in usage if row.purpose == "step"] == [1, 2, 3]
    kinds = [StepStarted, ModelReplied, ToolStarted, ToolFinished, StepCommitted]
    assert [type(event) for event in b.events[:5]] == kinds
    assert b.events[-1] == Finished("completed", outcome.answer)
    assert [request.messages[1].content for request in model.calls] == ["Question: What is the capital of Norway?"] * 3
    assert "Oslo is the capital of Norway." in texts(model.calls[2])


async def test_errors_of_tools_become_observations(path: Path) -> None:
    model = ScriptedBackbone(
        [
            search("a"),
            act(("serach", {"q": "b"})),
            act(("search", {"wrong": 1})),
            say("I could not find it."),
        ]
    )
    tools = [FakeTool("search", [ToolError("network", "the engine is down")])]
    async with bench(path, model, tools) as b:
        outcome = await b.session.ask("q?")
        errors = [step.observations[0].error for step in await b.steps() if step.calls]
    assert outcome.status == "completed"
    assert errors == ["network", "unknown_tool", "invalid_arguments"]
    assert "the engine is down" in texts(model.calls[1])
    assert "Did you mean 'search'" in texts(model.calls[2])


async def test_parallel_calls_run_in_order_and_only_the_first_four(path: Path) -> None:
    calls: list[tuple[str, dict[str, JsonValue]]] = [("search", {"q": str(i)}) for i in range(6)]
    model = ScriptedBackbone([act(*calls), say("done")])
    tools = [FakeTool("search", ["zero", "one", "two", "three"])]
    async with bench(path, model, tools) as b:
        await b.session.ask("q?")
        (step, _) = await b.steps()
    assert [item.text for item in step.observations[:4]] == ["zero", "one", "two", "three"]
    assert [item.error for item in step.observations] == [None] * 4 + ["not_run"] * 2
    assert [item.call_id for item in step.observations] == [f"s1.{i}" for i in range(6)]
    results = [message.tool_call_id for message in model.calls[1].messages if message.role == "tool"]
    assert results == [f"s1.{i}" for i in range(6)]


async def test_three_unreadable_replies_in_a_row_stop_by_name(path: Path) -> None:
    model = ScriptedBackbone([say(""), say("   "), say("")])
    async with bench(path, model) as b:
        outcome = await b.session.ask("q?")
        steps = await b.steps()
    assert outcome.status == "model_empty"
    assert [step.kind for step in steps] == ["note"] * 3
    assert "the reply is empty" in texts(model.calls[1])


async def test_a_good_reply_forgives_the_bad_ones_before(path: Path) -> None:
    bad = Reply("", tool_calls=(UnparsedCall("p0", "search", raw="{broken: [[["),), stop_reason="tool_calls")
    model = ScriptedBackbone([say(""), bad, search("x"), say(""), bad, say("done")])
    async with bench(path, model, [FakeTool("search", ["found"])]) as b:
        assert (await b.session.ask("q?")).status == "completed"
        assert [step.kind for step in await b.steps()] == ["note", "note", "act", "note", "note", "answer"]


async def test_two_refusals_are_refused_one_is_not(path: Path) -> None:
    model = ScriptedBackbone([say(""), say("no", "refusal"), say("I must decline", "refusal")])
    async with bench(path, model) as b:
        outcome = await b.session.ask("q?")
    assert (outcome.status, len(model.calls)) == ("refused", 3)


async def test_cut_output_is_never_executed(path: Path) -> None:
    cut = Reply("", tool_calls=search("half").tool_calls, stop_reason="length")
    model = ScriptedBackbone([cut, say("Oslo is", "length"), say("done")])
    async with bench(path, model, [FakeTool("search")]) as b:
        outcome = await b.session.ask("q?")
        assert [step.kind for step in await b.steps()] == ["note", "note", "answer"]
    assert outcome.answer == "done"
    assert "cut at the output limit" in texts(model.calls[1])


async def test_the_step_limit_says_when_one_is_left(path: Path) -> None:
    model = ScriptedBackbone([search("a"), search("b"), search("c")])
    tools = [FakeTool("search", ["1", "2", "3"])]
    async with bench(path, model, tools, Setup(LimitsConfig(max_steps=3))) as b:
        outcome = await b.session.ask("q?")
        steps = await b.steps()
    assert (outcome.status, outcome.steps) == ("budget", 3)
    assert "max_steps" in outcome.message
    assert [LAST_STEP in [item.text for item in step.observations] for step in steps] == [False, True, False]
    assert LAST_STEP in texts(model.calls[2])


@pytest.mark.parametrize(
    ("limits", "usage", "name"),
    [
        (LimitsConfig(max_tokens=1000), Usage(input_total=450, output=60), "max_tokens"),
        (LimitsConfig(max_cost_usd=0.05), Usage(input_total=1, output=1, cost=0.03), "max_cost_usd"),
    ],
)
async def test_tokens_and_money_end_a_run(path: Path, limits: LimitsConfig, usage: Usage, name: str) -> None:
    model = ScriptedBackbone([search("a", usage), search("b", usage)])
    async with bench(path, model, [FakeTool("search", ["1", "2"])], Setup(limits)) as b:
        outcome = await b.session.ask("q?")
    assert outcome.status == "budget"
    assert name in outcome.message


async def test_time_ends_a_run(path: Path) -> None:
    setup = Setup(LimitsConfig(max_seconds=60))

    def slow(_: Request) -> Reply:
        setup.clock.now += 40
        return search(str(setup.clock.now))

    async with bench(path, ScriptedBackbone([slow, slow]), [FakeTool("search", ["1", "2"])], setup) as b:
        outcome = await b.session.ask("q?")
    assert outcome.status == "budget"
    assert "max_seconds" in outcome.message


async def test_the_usage_of_a_summary_counts(path: Path) -> None:
    setup = Setup(LimitsConfig(max_tokens=1000))
    row = UsageRow(1, "summary", "small", Usage(input_total=900, output=200))

    async def summarised(b: Bench) -> None:
        await b.loop.spending.record(row)

    model = ScriptedBackbone([search("a", Usage(input_total=10, output=1))])
    async with bench(path, model, [FakeTool("search", ["1"])], setup) as b:
        await b.memory.ask("q?")
        b.loop.start_question()
        await b.loop.step()
        await summarised(b)
        outcome = await b.session.go_on()
        assert row in await b.store.usage()
    assert (outcome.status, outcome.usage.input_total) == ("budget", 910)


async def test_a_new_question_has_its_limits_anew(path: Path) -> None:
    model = ScriptedBackbone([search("a"), search("b"), say("second")])
    async with bench(path, model, [FakeTool("search", ["1", "2"])], Setup(LimitsConfig(max_steps=2))) as b:
        assert (await b.session.ask("first?")).status == "budget"
        assert (await b.session.go_on()).status == "budget"
        assert (await b.session.ask("second?")).status == "completed"
    async with bench(path, ScriptedBackbone([say("third")]), [], Setup(LimitsConfig(max_steps=2))) as b:
        assert (await b.session.ask("third?")).answer == "third"


async def test_the_same_action_again_and_again_is_stuck(path: Path) -> None:
    model = ScriptedBackbone(lambda _: search("the same"))
    async with bench(path, model, [FakeTool("search", ["nothing"] * 9)]) as b:
        outcome = await b.session.ask("q?")
        steps = await b.steps()
    assert (outcome.status, outcome.steps) == ("stuck", 9)
    notes = [next((item.text for item in step.observations if item.tool == "note"), "") for step in steps]
    assert [bool(note) for note in notes] == [False, False] + [True] * 7
    assert "Do something else now" in notes[5]


async def test_a_context_found_too_long_is_built_smaller(path: Path) -> None:
    """Refusals shrink the same step's context; what was accepted bounds every later one."""
    page = "The northern bridge was rebuilt in 1831 and cost 2000 crowns. " * 150
    refusal = ContextTooLong("maximum context length exceeded")
    model = ScriptedBackbone([search("a"), search("b"), search("c"), refusal, refusal, search("d"), say("done")])
    async with bench(path, model, [FakeTool("search", [page] * 4)]) as b:
        outcome = await b.session.ask("q?")
        records = await b.store.plans()
        sent = [event.context.tokens for event in b.events if isinstance(event, StepStarted)]
        assert all(one.same for one in await b.memory.rebuild_all())
        learned = b.loop.window.learned
    assert outcome.status == "completed"
    assert [record.step for record in records] == [1, 2, 3, 4, 5]
    assert sent[4] <= 0.8 * sent[3]
    assert sent[5] <= 0.8 * sent[4]
    assert sent[6] <= learned.ceiling == int(sent[4] * 0.8)  # type: ignore[operator]


async def test_a_model_that_takes_nothing_stops_by_name(path: Path) -> None:
    page = "The northern bridge was rebuilt in 1831 and cost 2000 crowns. " * 400
    refusal = ContextTooLong("maximum context length exceeded")
    model = ScriptedBackbone([search("a"), search("b"), *[refusal] * 5])
    async with bench(path, model, [FakeTool("search", [page] * 2)]) as b:
        outcome = await b.session.ask("q?")
        assert len(await b.steps()) == 2
    assert outcome.status == "context_exhausted"
    assert "4 ever smaller contexts" in outcome.message


async def test_a_first_request_that_cannot_shrink_stops_by_name(path: Path) -> None:
    model = ScriptedBackbone([ContextTooLong("too long")])
    async with bench(path, model) as b:
        outcome = await b.session.ask("q?")
    assert outcome.status == "context_exhausted"


async def test_what_was_learned_before_holds_from_the_first_step(path: Path) -> None:
    setup = Setup(learned=Learned(window=8_192, ceiling=1_500))
    page = "The northern bridge was rebuilt in 1831. " * 400
    model = ScriptedBackbone([search("a"), say("done")])
    async with bench(path, model, [FakeTool("search", [page])], setup) as b:
        await b.session.ask("q?")
        assert [record.budget for record in await b.store.plans()] == [1_500, 1_500]


async def test_a_budget_too_small_is_said_before_any_call(path: Path) -> None:
    model = ScriptedBackbone([])
    async with bench(path, model, [], Setup(memory=MemoryConfig(budget=50))) as b:
        with pytest.raises(BudgetTooSmall) as fault:
            await b.session.ask("q?")
        assert await b.ended() == ["context_exhausted"]
    assert 50 < fault.value.minimum < 2000
    model = ScriptedBackbone([say("it fits")])
    async with bench(path, model, [], Setup(memory=MemoryConfig(budget=fault.value.minimum))) as b:
        assert (await b.session.go_on()).answer == "it fits"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (AuthFailed("401", hint="export KEY=..."), "auth"),
        (Unavailable("connection refused"), "model_unavailable"),
        (RateLimited("429"), "model_unavailable"),
        (BrokenStream("cut"), "model_unavailable"),
        (BadRequest("400"), "request_rejected"),
        (ScriptExhausted("call 9 of 8"), "script_exhausted"),
    ],
)
async def test_faults_of_the_model_are_statuses(path: Path, fault: Exception, status: str) -> None:
    async with bench(path, ScriptedBackbone([search("a"), fault]), [FakeTool("search", ["1"])]) as b:
        outcome = await b.session.ask("q?")
        assert await b.ended() == [status]
    assert (outcome.status, outcome.answer, outcome.steps) == (status, "", 1)
    assert str(fault) in outcome.message
    async with bench(path, ScriptedBackbone([say("later")])) as b:
        assert (await b.session.go_on()).answer == "later"


async def test_overflow_stop_ends_as_context_exhausted(path: Path) -> None:
    page = "The northern bridge was rebuilt in 1831 and cost 2000 crowns. " * 100
    setup = Setup(memory=MemoryConfig(budget=4_000, overflow="stop", spend=False))
    scripted: Callable[[Request], Reply] = lambda request: search(str(len(request.messages)) + texts(request)[-9:])  # noqa: E731
    async with bench(path, ScriptedBackbone(scripted), [FakeTool("search", [page] * 2)], setup) as b:
        outcome = await b.session.ask("q?")
    assert outcome.status == "context_exhausted"
    assert outcome.steps == 2
