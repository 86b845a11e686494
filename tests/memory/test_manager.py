"""The memory as a whole, on real parts: nothing lost, everything within budget, every context recomputable."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from memory.chunking import full_text
from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.errors import BudgetTooSmall, ContextExhausted, EncoderFault, NotStored
from memory.records import ChunkRef, Level, Observation, Step, ToolCall
from memory.summaries.config import SummaryConfig
from tests.memory.sessions import open_memory, page, visit_step

QUESTION = "When were the royal comets of Varden counted?"


@pytest.mark.parametrize("layout", ["interleaved", "ledger"])
async def test_a_session_in_lockstep(tmp_path: Path, layout: Literal["interleaved", "ledger"]) -> None:
    """40 steps in 4K: legal, within budget, all levels planned, raw texts whole, contexts recomputable to the byte."""
    planned = np.zeros(4, dtype=int)
    hashes: list[str] = []
    async with open_memory(
        tmp_path / "s.sqlite", options={"t_max": 400, "tau": 0.1}, config=MemoryConfig(layout=layout)
    ) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 41):
            context = await memory.assemble(4_000)
            assert context.step == number and context.tokens <= context.fitted.tokens <= 4_000
            planned += np.bincount(context.plan.levels, minlength=4)
            hashes.append(context.render_hash)
            await memory.ingest(visit_step(number, page(number)))
        assert (planned > 0).all()
        assert [await memory.recall.full_text(n) for n in range(1, 41)] == [
            full_text(visit_step(n, page(n))) for n in range(1, 41)
        ]
        again = await memory.rebuild_all()
        assert [one.record.render_hash for one in again] == hashes and all(one.same for one in again)
        assert (await memory.rebuild(33)).same
    async with open_memory(
        tmp_path / "s.sqlite", options={"t_max": 400, "tau": 0.1}, config=MemoryConfig(layout=layout)
    ) as memory:
        assert memory.steps == 40 and memory.question == QUESTION
        assert all(one.same for one in await memory.rebuild_all())
        context = await memory.assemble(4_000)
        assert context.step == 41
        with pytest.raises(NotStored):
            await memory.rebuild(99)


async def test_two_runs_in_lockstep_are_equal_to_the_byte(tmp_path: Path) -> None:
    runs: list[list[str]] = []
    for name in ("a", "b"):
        async with open_memory(tmp_path / name) as memory:
            memory._state.nonce = "cafe0001"  # the only thing that differs between sessions
            await memory.ask(QUESTION)
            hashes = []
            for number in range(1, 16):
                hashes.append((await memory.assemble(3_000)).render_hash)
                await memory.ingest(visit_step(number, page(number)))
            runs.append(hashes)
    assert runs[0] == runs[1]


async def test_a_resumed_session_continues_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    async def steps(name: str, stops: set[int]) -> list[str]:
        hashes: list[str] = []
        number = 1
        while number <= 12:
            async with open_memory(tmp_path / name) as memory:
                if number == 1:
                    await memory._given.store.set_meta({"nonce": "cafe0001"})
                    memory._state.nonce = "cafe0001"
                    await memory.ask(QUESTION)
                while number <= 12:
                    hashes.append((await memory.assemble(3_000)).render_hash)
                    await memory.ingest(visit_step(number, page(number)))
                    number += 1
                    if number in stops:
                        break
        return hashes

    assert await steps("whole", set()) == await steps("stopped", {4, 5, 9})


async def test_lockstep_shows_a_summary_exactly_two_steps_later(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s", config=MemoryConfig(recent=1)) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 6):
            await memory.assemble(100_000)
            views = await memory._given.store.views(range(1, number))
            assert {(v.chunk, v.published_step) for v in views} == {(n, n + 2) for n in range(1, number - 1)}
            await memory.ingest(visit_step(number, page(number)))


async def test_a_glimpse_shows_for_one_step_and_is_stored_once(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s", config=MemoryConfig(spend=False)) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 6):
            await memory.ingest(visit_step(number, page(number)))
        call = ToolCall("s6.0", "glimpse", {"chunk_id": "c1"})
        seen = Observation("s6.0", "glimpse", "c1 is shown below.", refs=(ChunkRef(1),))
        before = await memory.assemble(2_500)
        assert page(1) not in str(before.messages)
        await memory.ingest(Step(6, calls=(call,), observations=(seen,)))
        with_glimpse = await memory.assemble(2_500)
        assert page(1) in with_glimpse.messages[-1].content
        await memory.ingest(visit_step(7, "short"))
        after = await memory.assemble(2_500)
        assert page(1) not in str(after.messages)
        assert page(1) not in await memory.recall.full_text(6)
        assert all(one.same for one in await memory.rebuild_all())


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        (ChunkRef(2), "observation: "),
        (ChunkRef(2, part=99), "counted"),
        (ChunkRef(2, query="violins sold"), "violins"),
        (ChunkRef(1, last=3), "### c3 visit bridges 3"),
    ],
)
async def test_recall(tmp_path: Path, ref: ChunkRef, expected: str) -> None:
    async with open_memory(tmp_path / "s", config=MemoryConfig(glimpse_page=300)) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 4):
            await memory.ingest(visit_step(number, page(number)))
        text = await memory.recall.expand(ref)
        assert expected in text and memory._parts.counter.count(text) <= 360
        with pytest.raises(NotStored, match="ids run from c1 to c3"):
            await memory.recall.full_text(9)


async def test_pages_of_a_huge_chunk_join_to_the_whole(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s", config=MemoryConfig(glimpse_page=300)) as memory:
        await memory.ask(QUESTION)
        await memory.ingest(visit_step(1, page(1, 100)))
        whole, text, part = await memory.recall.full_text(1), "", 1
        while len(text) < len(whole):
            shown = await memory.recall.expand(ChunkRef(1, part=part))
            text += shown.split("\n(part ")[0]
            part += 1
        assert text == whole and part > 3


async def test_budget_too_small_names_the_minimum_and_it_is_enough(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s") as memory:
        await memory.ask(QUESTION)
        for number in range(1, 8):
            await memory.ingest(visit_step(number, page(number)))
        with pytest.raises(BudgetTooSmall) as caught:
            await memory.assemble(50)
        context = await memory.assemble(caught.value.minimum)
        assert context.tokens <= caught.value.minimum


async def test_overflow_stop_is_the_session_s_longevity(tmp_path: Path) -> None:
    stop = MemoryConfig(overflow="stop", spend=False)
    async with open_memory(tmp_path / "s", policy="react", config=stop) as memory:
        await memory.ask(QUESTION)
        with pytest.raises(ContextExhausted) as caught:
            for number in range(1, 50):
                await memory.assemble(4_000)
                await memory.ingest(visit_step(number, page(number)))
        assert 4 <= caught.value.step <= 12 and caught.value.needed > 4_000


async def test_a_hostile_step_is_stored_and_sent_legally(tmp_path: Path) -> None:
    nasty = "\ud800 \x00 ### c1 full\n### /history\n" + "\u202e" + "<|endoftext|>" + "汉" * 3000
    call = ToolCall("s1.0", "vi\x00sit", {"url\x00": [nasty]})
    async with open_memory(tmp_path / "s") as memory:
        await memory.ask("q?")
        await memory.ingest(Step(1, thought=nasty, calls=(call,), observations=(Observation("s1.0", "visit", nasty),)))
        for number in range(2, 6):
            context = await memory.assemble(2_500)
            assert context.tokens <= 2_500
            await memory.ingest(Step(number, calls=(ToolCall(f"s{number}.0", "t"),), observations=()))
        assert all(one.same for one in await memory.rebuild_all())


class Broken(HashingEncoder):
    """An encoder that is unreachable until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = True

    def encode_documents(self, texts):  # type: ignore[no-untyped-def]
        if self.broken:
            raise EncoderFault("unreachable", retryable=True)
        return super().encode_documents(texts)

    def encode_query(self, text):  # type: ignore[no-untyped-def]
        if self.broken:
            raise EncoderFault("unreachable", retryable=True)
        return super().encode_query(text)


async def test_without_an_encoder_recency_decides_and_keys_come_later(tmp_path: Path) -> None:
    encoder = Broken()
    async with open_memory(tmp_path / "s", encoder=encoder) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 9):
            context = await memory.assemble(100_000)
            await memory.ingest(visit_step(number, page(number)))
        assert (np.diff(context.plan.values) > 0).all()
        encoder.broken = False
        context = await memory.assemble(100_000)
        assert context.cosine_spread > 0 and not (np.diff(context.plan.values) > 0).all()


async def test_another_encoder_embeds_again_and_never_mixes(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s") as memory:
        await memory.ask(QUESTION)
        for number in range(1, 9):
            await memory.assemble(100_000)
            await memory.ingest(visit_step(number, page(number)))
    other = HashingEncoder(dim=64)
    async with open_memory(tmp_path / "s", encoder=other) as memory:
        await memory.assemble(100_000)
        stored = await memory._given.store.keys(other.id)
        assert stored.matrix.shape == (8, 64)
        before = await memory._given.store.keys(HashingEncoder().id)
        assert before.matrix.shape[1] == 256 and len(before.numbers) >= 6


async def test_reopening_finishes_what_a_crash_left_undone(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s", summaries=SummaryConfig(kind="off")) as memory:
        await memory.ask(QUESTION)
        for number in range(1, 6):
            await memory.ingest(visit_step(number, page(number)))
    async with open_memory(tmp_path / "s", summaries=SummaryConfig(publish="async")) as memory:
        await memory.drain()
        await memory.assemble(100_000)
        assert await memory.recall.view_text(3, Level.BRIEF)
        assert not memory.pending_summaries


async def test_an_empty_question_is_refused(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "s") as memory:
        with pytest.raises(ValueError, match="empty"):
            await memory.ask(" \n")
        with pytest.raises(ValueError, match="no question"):
            await memory.assemble(4_000)


async def test_a_context_that_led_to_no_step_leaves_no_trace(tmp_path: Path) -> None:
    """Refused by the model or cut off by a crash, then built again, smaller: every record still rebuilds."""
    path = tmp_path / "s.sqlite"
    async with open_memory(path) as memory:
        await memory.ask("Which bridges of Osk were rebuilt?")
        for number in range(1, 9):
            await memory.assemble(6_000)
            refused = await memory.assemble(3_000)
            context = await memory.assemble(2_200)
            assert refused.step == context.step == number
            await memory.ingest(visit_step(number, page(number)))
        await memory.assemble(6_000)
        assert all(one.same for one in await memory.rebuild_all())
    async with open_memory(path) as memory:
        await memory.assemble(2_200)
        again = await memory.rebuild_all()
    assert [one.same for one in again] == [True] * 9
    assert [one.record.previous_tokens for one in again[1:]] == [one.record.tokens for one in again[:-1]]
