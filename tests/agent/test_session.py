"""Sessions last: interrupted anywhere, they are readable and go on; answered, they take a further question."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.backbones.scripted import ScriptedBackbone
from memory.records import Reply, Request
from tests.agent.bench import FakeTool, act, bench, say, search


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.sqlite"


class Hanging(ScriptedBackbone):
    """Says its script, then never answers."""

    def __init__(self, script: list[Reply]) -> None:
        super().__init__(script)
        self.began = asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        if len(self.calls) == len(self._script):  # type: ignore[arg-type]
            self.began.set()
            await asyncio.Event().wait()
        return await super().complete(request)


async def cancelled(work: asyncio.Task[object], when: asyncio.Event) -> None:
    """Cancel ``work`` once ``when`` is set, and see that it ends so."""
    await asyncio.wait_for(when.wait(), 20)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_cancelled_in_a_model_call(path: Path) -> None:
    model = Hanging([search("a")])
    async with bench(path, model, [FakeTool("search", ["one"])]) as b:
        work: asyncio.Task[object] = asyncio.create_task(b.session.ask("q?"))
        await cancelled(work, model.began)
        assert await b.ended() == ["interrupted"]
    async with bench(path, ScriptedBackbone([say("done [c1]")])) as b:
        assert [step.observations[0].text for step in await b.steps()] == ["one"]
        outcome = await b.session.go_on()
        assert all(one.same for one in await b.memory.rebuild_all())
    assert (outcome.status, outcome.steps, outcome.question) == ("completed", 2, "q?")


@pytest.mark.parametrize("tool", ["search", "visit"])
async def test_a_call_that_only_reads_is_run_again(path: Path, tool: str) -> None:
    hanging = FakeTool(tool, hangs=True)
    async with bench(path, ScriptedBackbone([act((tool, {"q": "a"}), text="why")]), [hanging]) as b:
        await cancelled(asyncio.create_task(b.session.ask("q?")), hanging.began)
        assert await b.steps() == []
    again = FakeTool(tool, ["found"])
    model = ScriptedBackbone([say("done")])
    async with bench(path, model, [again]) as b:
        assert (await b.session.go_on()).status == "completed"
        first = (await b.steps())[0]
        rows = await b.store.usage()
    assert (first.thought, first.observations[0].text, first.interrupted) == ("why", "found", False)
    assert [call.call_id for call in again.calls] == ["s1.0"]
    assert [row.step for row in rows] == [1, 2]


async def test_a_glimpse_is_run_again(path: Path) -> None:
    """With a hanging call beside it, so that the step is not committed."""
    hanging = FakeTool("visit", hangs=True)
    both = act(("glimpse", {"chunk_id": "c1"}), ("visit", {"q": "a"}))
    async with bench(path, ScriptedBackbone([search("a"), both]), [FakeTool("search", ["one"]), hanging]) as b:
        await cancelled(asyncio.create_task(b.session.ask("q?")), hanging.began)
    async with bench(path, ScriptedBackbone([say("done")]), [FakeTool("visit", ["two"])]) as b:
        await b.session.go_on()
        step = (await b.steps())[1]
    assert [ref.chunk for ref in step.observations[0].refs] == [1]
    assert step.observations[1].text == "two"


async def test_python_is_not_run_again(path: Path) -> None:
    hanging = FakeTool("python", hangs=True)
    both = act(("search", {"q": "a"}), ("python", {"q": "1 + 1"}))
    async with bench(path, ScriptedBackbone([both]), [FakeTool("search", ["one"]), hanging]) as b:
        await cancelled(asyncio.create_task(b.session.ask("q?")), hanging.began)
        assert await b.ended() == ["interrupted"]
    model = ScriptedBackbone([say("done")])
    async with bench(path, model, [FakeTool("search"), FakeTool("python")]) as b:
        assert (await b.session.go_on()).status == "completed"
        step = (await b.steps())[0]
        kinds = [event.kind for event in await b.store.events()]
    assert step.interrupted
    assert [item.error for item in step.observations] == ["interrupted", "interrupted"]
    assert "was not run again" in model.calls[0].messages[-1].content
    assert kinds == ["working", "ended", "recovered", "working", "ended"]


async def test_a_crash_of_a_tool_is_recorded_and_raised(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tools = [FakeTool("search", [ZeroDivisionError("a bug")])]
    async with bench(path, ScriptedBackbone([search("a")]), tools) as b:
        with pytest.raises(ZeroDivisionError):
            await b.session.ask("q?")
        (event,) = [event for event in await b.store.events() if event.kind == "ended"]
    assert event.body["status"] == "crashed"
    assert "Traceback" in str(event.body["message"]) and "ZeroDivisionError: a bug" in str(event.body["message"])
    assert "crashed" in caplog.text
    async with bench(path, ScriptedBackbone([say("without it")]), [FakeTool("search")]) as b:
        assert (await b.session.go_on()).answer == "without it"
        assert (await b.steps())[0].interrupted


async def test_a_crash_while_recovering_is_recorded(path: Path) -> None:
    hanging = FakeTool("search", hangs=True)
    async with bench(path, ScriptedBackbone([search("a")]), [hanging]) as b:
        await cancelled(asyncio.create_task(b.session.ask("q?")), hanging.began)
    async with bench(path, ScriptedBackbone([]), [FakeTool("search", [ZeroDivisionError()])]) as b:
        with pytest.raises(ZeroDivisionError):
            await b.session.go_on()
        assert await b.ended() == ["interrupted", "crashed"]
    async with bench(path, ScriptedBackbone([say("done")]), [FakeTool("search")]) as b:
        assert (await b.session.go_on()).status == "completed"


async def test_a_question_after_an_answer(path: Path) -> None:
    model = ScriptedBackbone([search("a"), say("first [c1]"), search("b"), say("second [c1] [c3]")])
    async with bench(path, model, [FakeTool("search", ["one", "two"])]) as b:
        first = await b.session.ask("first?")
        second = await b.session.ask("  second?  ")
        steps = await b.steps()
    assert (first.answer, second.answer) == ("first [c1]", "second [c1] [c3]")
    assert (second.question, second.steps) == ("second?", 4)
    assert [(step.task, step.kind) for step in steps] == [(1, "act"), (1, "answer"), (2, "act"), (2, "answer")]
    assert [citation.chunk for citation in second.citations if citation.found] == [1, 3]
    assert any("first?" in message.content for message in model.calls[2].messages)
    assert model.calls[2].messages[1].content == "Question: second?"


async def test_an_instruction_in_the_middle(path: Path) -> None:
    model = Hanging([search("a")])
    async with bench(path, model, [FakeTool("search", ["one"])]) as b:
        await cancelled(asyncio.create_task(b.session.ask("q?")), model.began)
    async with bench(path, ScriptedBackbone([say("done")])) as b:
        outcome = await b.session.ask("only in French")
        questions = await b.store.questions()
    assert [(q.task, q.text, q.from_step) for q in questions] == [(1, "q?", 1), (2, "only in French", 2)]
    assert outcome.answer == "done"


@pytest.mark.parametrize("question", ["", "  \n\t"])
async def test_an_empty_question_is_refused(path: Path, question: str) -> None:
    async with bench(path, ScriptedBackbone([])) as b:
        with pytest.raises(ValueError, match="empty"):
            await b.session.ask(question)
        assert await b.store.questions() == []
        with pytest.raises(ValueError, match="no question"):
            await b.session.go_on()


async def test_an_answered_question_is_not_asked_again(path: Path) -> None:
    async with bench(path, ScriptedBackbone([say("done [c7]")])) as b:
        first = await b.session.ask("q?")
    async with bench(path, ScriptedBackbone([])) as b:
        assert await b.session.go_on() == first


async def test_a_citation_to_nothing_is_reported(path: Path) -> None:
    model = ScriptedBackbone([search("a"), say("It is so [c1], and so [c99].")])
    async with bench(path, model, [FakeTool("search", ["It is so indeed."])]) as b:
        outcome = await b.session.ask("q?")
    assert [(c.chunk, c.found, c.quote) for c in outcome.citations] == [(1, True, "It is so indeed."), (99, False, "")]


async def test_a_resumed_session_knows_what_the_running_one_knew(path: Path) -> None:
    """Guards and limits go on counting across a restart."""
    same = [search("the same")] * 5
    async with bench(path, Hanging(same), [FakeTool("search", ["x"] * 5)]) as b:
        assert isinstance(b.backbone, Hanging)
        await cancelled(asyncio.create_task(b.session.ask("q?")), b.backbone.began)
    async with bench(path, ScriptedBackbone(same), [FakeTool("search", ["x"] * 4)]) as b:
        outcome = await b.session.go_on()
    assert (outcome.status, outcome.steps) == ("stuck", 9)
