"""branch and return_result, through the loop: a branch sees everything, and only its message stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.backbones.scripted import ScriptedBackbone
from memory.config import MemoryConfig
from memory.records import Observation, Reply, Request, Step, ToolCall
from memory.stored import Intent
from tests.agent.bench import FakeTool, Setup, act, bench, say, search

SETUP = Setup(policy="fold-branch", memory=MemoryConfig(recent=1, spend=False))


def texts(request: Request) -> str:
    return "\n".join(message.content for message in request.messages)


def branch(what: str) -> Reply:
    return act(("branch", {"description": what, "prompt": f"find {what}"}))


def back(message: str) -> Reply:
    return act(("return_result", {"message": message}))


async def test_a_branch_works_on_a_copy_and_only_its_message_stays(tmp_path: Path) -> None:
    model = ScriptedBackbone(
        [
            search("overview"),
            branch("the date"),
            search("date one"),
            search("date two"),
            back("It was 1893 [c4]."),
            branch("the place"),
            search("place"),
            back("In Lirne [c7]."),
            say("1893, Lirne"),
        ]
    )
    found = ["the overview", "no date", "the date is 1893", "the place is Lirne"]
    async with bench(tmp_path / "s", model, [FakeTool("search", found)], SETUP) as b:
        outcome = await b.session.ask("When and where?")
        blocks = list(b.memory.blocks)
        assert all(one.same for one in await b.memory.rebuild_all())
    assert outcome.answer == "1893, Lirne"
    assert [(b.first, b.last, b.kind) for b in blocks] == [(3, 5, "branch"), (7, 8, "branch")]
    inside, after, last = texts(model.calls[4]), texts(model.calls[6]), texts(model.calls[8])
    # inside a branch the main thread is all there
    assert "the overview" in inside and "no date" in inside and "find the date" in inside
    assert "### c3-c5 branch\nIt was 1893 [c4].\n" in after
    assert "the overview" in after and "no date" not in after and "the date is 1893" not in after
    assert "It was 1893" in last and "find the place" in last and "the place is Lirne" not in last


async def test_a_branch_cannot_branch_and_the_main_thread_cannot_return(tmp_path: Path) -> None:
    model = ScriptedBackbone(
        [
            back("nothing"),
            act(
                ("branch", {"description": "a", "prompt": "find a"}),
                ("return_result", {"message": "at once"}),
                ("branch", {"description": "b", "prompt": "find b"}),
            ),
            branch("c"),
            back("  "),
            act(("return_result", {"message": "a is 1"}), ("branch", {"description": "d", "prompt": "find d"})),
            act(("branch", {"description": "e", "prompt": " "})),
            back("d is 2"),
            say("done"),
        ]
    )
    async with bench(tmp_path / "s", model, (), SETUP) as b:
        await b.session.ask("q?")
        steps = await b.steps()
        spans = [(block.first, block.last, block.text) for block in b.memory.blocks]
    errors = [[item.error for item in step.observations] for step in steps if step.calls]
    assert errors == [
        ["forbidden"],
        [None, "forbidden", "forbidden"],
        ["forbidden"],
        ["invalid_arguments"],
        [None, None],
        ["invalid_arguments"],
        [None],
    ]
    assert "no branch is open" in steps[0].observations[0].text
    assert "in this very step" in steps[1].observations[1].text
    assert "a branch cannot branch: the one opened at c2 is open" in steps[2].observations[0].text
    assert spans == [(3, 5, "a is 1"), (6, 7, "d is 2")]


async def test_an_opened_session_knows_that_a_branch_is_open(tmp_path: Path) -> None:
    setup = SETUP
    async with bench(
        tmp_path / "s", ScriptedBackbone([branch("a"), search("x")]), [FakeTool("search", ["X"])], setup
    ) as b:
        await b.memory.ask("q?")
        await b.loop.step()
        await b.loop.step()
    model = ScriptedBackbone([branch("b"), back("a is X"), back("again"), say("done")])
    async with bench(tmp_path / "s", model, (), setup) as b:
        await b.session.go_on()
        errors = [step.observations[0].error for step in (await b.steps())[2:5]]
        assert [(block.first, block.last) for block in b.memory.blocks] == [(2, 4)]
    assert errors == ["forbidden", None, "forbidden"]


async def test_an_answer_ends_a_branch(tmp_path: Path) -> None:
    model = ScriptedBackbone([branch("a"), say("I know it already"), back("late"), branch("b"), say("done")])
    async with bench(tmp_path / "s", model, (), SETUP) as b:
        await b.session.ask("q?")
        await b.session.ask("and?")
        assert [step.observations[0].error for step in await b.steps() if step.calls] == [None, "forbidden", None]


async def test_a_return_that_a_crash_cut_off_is_finished_once(tmp_path: Path) -> None:
    script = [branch("a"), search("x")]
    async with bench(tmp_path / "s", ScriptedBackbone(script), [FakeTool("search", ["X"])], SETUP) as b:
        await b.memory.ask("q?")
        await b.loop.step()
        await b.loop.step()
        call = ToolCall("s3.0", "return_result", {"message": "a is X"})
        step = Step(3, calls=(call,), created=1.0)
        await b.memory.begin(Intent(step, 1.0))
        # the tool ran and its fold is on the disk, but the step was never committed
        (seen,) = await b.loop.act(step)
        assert seen.error is None
    async with bench(tmp_path / "s", ScriptedBackbone([say("done")]), (), SETUP) as b:
        assert (await b.session.go_on()).status == "completed"
        assert [(block.first, block.last) for block in b.memory.blocks] == [(2, 3)]
        (_, _, third, _) = await b.steps()
    assert not third.interrupted
    assert third.observations == (Observation("s3.0", "return_result", seen.text),)


@pytest.mark.parametrize("policy", ["fold-branch", "fold-range"])
async def test_the_tools_are_counted_in_every_context(tmp_path: Path, policy: str) -> None:
    sizes = {}
    for name in (policy, "react"):
        async with bench(tmp_path / name, ScriptedBackbone([]), (), Setup(policy=name)) as b:
            await b.memory.ask("q?")
            sizes[name] = (await b.memory.assemble(10_000)).fixed_tokens
    assert sizes[policy] > sizes["react"] + 50
