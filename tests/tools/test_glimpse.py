from __future__ import annotations

import pytest

from memory.errors import NotStored
from memory.records import Chunk, ChunkRef, ErrorKind, Level, Observation, Step, ToolCall
from tools.base import CallContext, ToolError
from tools.glimpse import Glimpse, GlimpseArguments
from tools.toolset import Toolset


class Reader:
    """Chunks 1 to 200 but 50; two parts each."""

    async def chunk(self, number: int) -> Chunk:
        if not 1 <= number <= 200 or number == 50:
            raise NotStored(f"no c{number}")
        return Chunk(Step(number), "", 1, 1, "")

    async def full_text(self, number: int) -> str:
        raise AssertionError("a glimpse copies no text")

    async def view_text(self, number: int, level: Level) -> str | None:
        raise AssertionError("a glimpse copies no text")

    async def expand(self, ref: ChunkRef) -> str:
        if ref.part > 2:
            raise NotStored("2 parts")
        return "text"


async def glimpse(tool: Glimpse, chunk_id: str, step: int = 201, part: int = 1, query: str = "") -> Observation:
    return await tool.run(GlimpseArguments(chunk_id=chunk_id, part=part, query=query), CallContext("s1.0", step))


@pytest.mark.parametrize(
    ("chunk_id", "ref"),
    [
        ("c12", ChunkRef(12)),
        (" C12 ", ChunkRef(12)),
        ("12", ChunkRef(12)),
        ("[c12]", ChunkRef(12)),
        ("c101-c164", ChunkRef(101, last=164)),
        ("c101-164", ChunkRef(101, last=164)),
        ("c101 – c164", ChunkRef(101, last=164)),
        ("c7-c7", ChunkRef(7)),
    ],
)
async def test_gives_a_reference(chunk_id: str, ref: ChunkRef) -> None:
    observation = await glimpse(Glimpse(Reader()), chunk_id)
    assert observation.refs == (ref,)
    assert observation.error is None
    assert len(observation.text) < 100 and "\n" not in observation.text


async def test_part_and_query_are_carried() -> None:
    assert (await glimpse(Glimpse(Reader()), "c3", part=2, query=" who ")).refs == (ChunkRef(3, 2, "who"),)


@pytest.mark.parametrize(
    ("chunk_id", "part", "kind", "says"),
    [
        ("c201", 1, "not_found", "c1 to c200"),
        ("c0", 1, "not_found", "c1 to c200"),
        ("c50", 1, "not_found", "no c50"),
        ("c190-c999", 1, "not_found", "no c999"),
        ("c3", 3, "not_found", "2 parts"),
        ("c9-c3", 1, "invalid_arguments", "backwards"),
        ("page 3", 1, "invalid_arguments", "c12"),
        ("", 1, "invalid_arguments", "c12"),
        ("c1١", 1, "invalid_arguments", "c12"),
        ("c" + "9" * 500, 1, "invalid_arguments", "c12"),
    ],
)
async def test_an_unknown_id_says_which_exist(chunk_id: str, part: int, kind: ErrorKind, says: str) -> None:
    with pytest.raises(ToolError, match=says) as caught:
        await glimpse(Glimpse(Reader()), chunk_id, part=part)
    assert caught.value.kind == kind


async def test_nothing_to_glimpse_at_the_first_step() -> None:
    with pytest.raises(ToolError, match="no step is stored yet"):
        await glimpse(Glimpse(Reader()), "c1", step=1)


async def test_three_a_step_over_all_calls_and_failures_do_not_count() -> None:
    toolset = Toolset([Glimpse(Reader())], max_parallel=5)
    calls = [ToolCall(f"s.{i}", "glimpse", {"chunk_id": c}) for i, c in enumerate(["c1", "c999", "c2", "c3", "c4"])]
    kinds = [observation.error for observation in await toolset.run(calls, step=100)]
    assert kinds == [None, "not_found", None, None, "limit"]
    [again] = await toolset.run(calls[:1], step=101)
    assert again.error is None


async def test_the_limit_is_a_setting() -> None:
    tool = Glimpse(Reader(), per_step=1)
    await glimpse(tool, "c1")
    with pytest.raises(ToolError, match="at most 1"):
        await glimpse(tool, "c2")
