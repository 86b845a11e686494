"""fold, through the loop: what the model folds is what it sees next, and what it may not fold it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.backbones.scripted import ScriptedBackbone
from memory.config import MemoryConfig
from memory.records import JsonValue, Reply, Request
from tests.agent.bench import FakeTool, Setup, act, bench, say, search

SETUP = Setup(policy="fold-range", memory=MemoryConfig(recent=1, spend=False))


def texts(request: Request) -> str:
    return "\n".join(message.content for message in request.messages)


def fold(step: int | str, text: str = "what it found", **more: JsonValue) -> Reply:
    return act(("fold", {"from_step": step, "text": text, **more}))


async def test_a_model_folds_its_newest_steps(tmp_path: Path) -> None:
    model = ScriptedBackbone(
        [
            search("alpha"),
            search("beta"),
            act(("fold", {"from_step": "c1", "text": "Alpha and beta lead nowhere [c1]."}), ("search", {"q": "gamma"})),
            search("delta"),
            fold("c3", "### c9 full\nGamma was it."),
            fold(1, "Only gamma matters."),
            say("Gamma [c3]."),
        ]
    )
    tools = [FakeTool("search", ["found alpha", "found beta", "found gamma", "found delta"])]
    async with bench(tmp_path / "s", model, tools, SETUP) as b:
        outcome = await b.session.ask("Which one?")
        steps = await b.steps()
        blocks = list(b.memory.blocks)
        assert all(one.same for one in await b.memory.rebuild_all())
        assert await b.memory.recall.full_text(1)
    assert outcome.status == "completed"
    assert [(b.first, b.last, b.kind, b.producer) for b in blocks] == [
        (1, 2, "fold", "model"),
        (3, 4, "fold", "model"),
        (1, 5, "fold", "model"),
    ]
    assert [b.published_step for b in blocks] == [4, 6, 7]
    fourth, sixth, seventh = (texts(model.calls[n]) for n in (3, 5, 6))
    assert "### c1-c2 fold\nAlpha and beta lead nowhere [c1].\n" in fourth and "found alpha" not in fourth
    assert "found gamma" in fourth
    # a fold cannot pretend to be another chunk
    assert "### c3-c4 fold\n# # # c9 full\nGamma was it." in sixth and "found gamma" not in sixth
    assert "### c1-c5 fold\nOnly gamma matters." in seventh and "lead nowhere" not in seventh
    assert steps[2].observations[0].text.startswith("c1-c2 folded into ")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("c0", "invalid_arguments", "the question cannot be folded"),
        ("the start", "invalid_arguments", "is no step; write it as c12"),
        ("c7", "not_found", "no finished step c7; the newest is c5"),
        (6, "not_found", "the newest is c5"),
        ("c3", "invalid_arguments", "c3 is inside the fold c2-c4: fold from c2 or c5"),
        (-1, "invalid_arguments", "is no step"),
        ("c2", None, "c2-c5 folded"),
        ("[c5]", None, "c5 folded"),
        ("c2-c4", None, "c2-c5 folded"),
        (1, None, "c1-c5 folded"),
    ],
)
async def test_what_may_be_folded(tmp_path: Path, given: int | str, error: str | None, says: str) -> None:
    # steps 1 to 4, a fold of 2 to 4 in step 5, then the fold in question in step 6
    model = ScriptedBackbone([*[search(str(n)) for n in range(4)], fold("c2"), fold(given, "anew"), say("done")])
    async with bench(tmp_path / "s", model, [FakeTool("search", ["x"] * 4)], SETUP) as b:
        await b.session.ask("q?")
        observation = (await b.steps())[5].observations[0]
        count = len(b.memory.blocks)
    assert (observation.error, count) == (error, 1 if error else 2)
    assert says in observation.text


async def test_nothing_to_fold_and_nothing_to_say(tmp_path: Path) -> None:
    model = ScriptedBackbone([fold("c1"), fold("c1", " \n"), fold("c1", extra=1), say("done")])
    async with bench(tmp_path / "s", model, (), SETUP) as b:
        await b.session.ask("q?")
        said = [(step.observations[0].error, step.observations[0].text) for step in (await b.steps())[:3]]
        assert not b.memory.blocks
    assert said[0] == ("not_found", "there is no finished step to fold yet")
    assert said[1] == ("invalid_arguments", "the text is empty: write what the steps found")
    assert said[2][0] == "invalid_arguments"


async def test_a_fold_is_storable_and_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path / "s", ScriptedBackbone([]), (), SETUP) as b:
        memory = b.memory
        nonce = memory._state.nonce
        block = await memory.fold(1, 1, "fold", f"\ud800 {nonce}\x00 " + "word " * 40_000)
        assert block.tokens <= 4_000 and nonce not in block.text and "\x00" not in block.text
        assert await memory.fold(1, 1, "fold", f"\ud800 {nonce}\x00 " + "word " * 40_000) == block
        assert len(memory.blocks) == 1
        for first, last in ((0, 1), (2, 1), (1, 3)):
            with pytest.raises(ValueError, match="no range"):
                await memory.fold(first, last, "fold", "x")
        with pytest.raises(ValueError, match="empty"):
            await memory.fold(1, 1, "fold", " ")


async def test_other_policies_do_not_offer_it(tmp_path: Path) -> None:
    model = ScriptedBackbone([fold("c1"), say("done")])
    async with bench(tmp_path / "s", model) as b:
        await b.session.ask("q?")
        assert (await b.steps())[0].observations[0].error == "unknown_tool"


async def folded_run(path: Path, stop: bool) -> list[str]:
    script = [search("a"), search("b"), fold("c1", "nothing yet"), search("c"), fold("c3", "still nothing"), say("no")]
    tool_texts = ["found a", "found b", "found c"]
    if not stop:
        async with bench(path, ScriptedBackbone(script), [FakeTool("search", tool_texts)], SETUP) as b:
            b.memory._state.nonce = "cafe0001"
            await b.session.ask("q?")
            return [record.render_hash for record in await b.store.plans()]
    hashes: list[str] = []
    for number, reply in enumerate(script):
        texts_now = tool_texts[:1] if reply.tool_calls and reply.tool_calls[0].name == "search" else []
        tool_texts = tool_texts[len(texts_now) :]
        async with bench(path, ScriptedBackbone([reply]), [FakeTool("search", texts_now)], SETUP) as b:
            b.memory._state.nonce = "cafe0001"
            if number == 0:
                await b.memory.ask("q?")
            if number < len(script) - 1:
                await b.loop.step()
            else:
                await b.session.go_on()
            hashes = [record.render_hash for record in await b.store.plans()]
    return hashes


async def test_a_resumed_session_sees_the_same_folds(tmp_path: Path) -> None:
    whole = await folded_run(tmp_path / "a", stop=False)
    stopped = await folded_run(tmp_path / "b", stop=True)
    assert whole == stopped and len(whole) == 6
