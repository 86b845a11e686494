"""What control tools need of a session's memory, and how they come to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memory.plan import Block
from memory.ports import ChunkReader
from memory.stored import ChunkFacts


class FoldingMemory(Protocol):
    """The part of `memory.manager.Memory` that control tools use."""

    @property
    def steps(self) -> int: ...

    @property
    def facts(self) -> Sequence[ChunkFacts]: ...

    @property
    def blocks(self) -> Sequence[Block]: ...

    @property
    def recall(self) -> ChunkReader: ...

    async def fold(self, first: int, last: int, kind: str, text: str) -> Block:
        """Raises ValueError."""
        ...


class Bound:
    """A memory that is there once the session is open: its tools are offered before it, since it counts their texts."""

    def __init__(self) -> None:
        self._memory: FoldingMemory | None = None

    def bind(self, memory: FoldingMemory) -> None:
        """From here on tools may be called."""
        self._memory = memory

    @property
    def memory(self) -> FoldingMemory:
        """Raises RuntimeError before `bind`: a fault of the program."""
        if self._memory is None:
            raise RuntimeError("a control tool was called before its session was open")
        return self._memory
