"""glimpse: show an old step in full again (PACE, the glimpse tool).

The observation carries a reference, not the text: the memory expands it when the next context is rendered, so a
glimpse costs its tokens once and is never stored a second time.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import Field

from memory.errors import NotStored
from memory.ports import ChunkReader
from memory.records import ChunkRef, Observation
from tools.base import Arguments, CallContext, ToolError

_ID = re.compile(r"\[?\s*c?(\d{1,9})\s*(?:[-–—]\s*c?(\d{1,9}))?\s*\]?", re.IGNORECASE | re.ASCII)


class GlimpseArguments(Arguments):
    chunk_id: str = Field(description="id of an earlier step, e.g. c12, or of a folded range, e.g. c101-c164")
    part: int = Field(default=1, ge=1, description="page of a huge step, from 1")
    query: str = Field(default="", max_length=1000, description="show only the passages that match this best")


class Glimpse:
    """``per_step``: successful glimpses allowed per step, over all its calls."""

    name: ClassVar[str] = "glimpse"
    description = (
        "Show an earlier step, which the history shows shortened, in full again. Use it when a summary or a one-line "
        "entry seems to hold what you need. A range id lists its members."
    )
    arguments: type[Arguments] = GlimpseArguments
    timeout_s = 30.0

    def __init__(self, reader: ChunkReader, *, per_step: int = 3) -> None:
        self._reader = reader
        self._per_step = per_step
        self._step = 0
        self._used = 0

    async def run(self, arguments: GlimpseArguments, context: CallContext) -> Observation:
        """Raises ToolError: invalid_arguments, not_found, limit."""
        if context.step != self._step:
            self._step, self._used = context.step, 0
        if self._used >= self._per_step:
            raise ToolError("limit", f"at most {self._per_step} glimpses a step; ask again in the next step")
        ref = parse_ref(arguments)
        await self._check(ref, newest=context.step - 1)
        self._used += 1
        return Observation(context.call_id, self.name, _line(ref), refs=(ref,))

    async def aclose(self) -> None:
        return None

    async def _check(self, ref: ChunkRef, *, newest: int) -> None:
        known = f"ids c1 to c{newest} exist" if newest > 0 else "no step is stored yet"
        for number in (ref.chunk, ref.last or ref.chunk):
            if not 1 <= number <= newest:
                raise ToolError("not_found", f"there is no c{number}; {known}")
            try:
                await self._reader.chunk(number)
            except NotStored as error:
                raise ToolError("not_found", f"there is no c{number}; {known}") from error
        if ref.part > 1:
            try:
                await self._reader.expand(ref)
            except NotStored as error:
                raise ToolError("not_found", f"c{ref.chunk} has no part {ref.part}: {error}") from error


def parse_ref(arguments: GlimpseArguments) -> ChunkRef:
    """``c12`` or ``c101-c164`` (also without the c, in brackets, in upper case). Raises ToolError."""
    match = _ID.fullmatch(arguments.chunk_id.strip())
    if match is None:
        raise ToolError("invalid_arguments", f"{arguments.chunk_id[:64]!r} is no chunk id; write c12 or c101-c164")
    first, last = int(match[1]), int(match[2] or 0)
    if last and last < first:
        raise ToolError("invalid_arguments", f"the range {arguments.chunk_id[:64]!r} runs backwards")
    return ChunkRef(first, arguments.part, arguments.query.strip(), last if last > first else 0)


def _line(ref: ChunkRef) -> str:
    if ref.last:
        return f"c{ref.chunk}-c{ref.last} is listed below for this step."
    if ref.query:
        return f"The passages of c{ref.chunk} that match best are shown below for this step."
    if ref.part > 1:
        return f"Part {ref.part} of c{ref.chunk} is shown below for this step."
    return f"c{ref.chunk} is shown in full below for this step."
