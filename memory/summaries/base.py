"""What a summariser is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from memory.records import View


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """One chunk to summarise. ``tokens_full`` counts its rendered FULL block."""

    chunk: int
    text: str
    question: str
    tokens_full: int


class Summariser(Protocol):
    """Makes the DETAILED and BRIEF views of a chunk.

    ``producer`` and ``prompt_hash`` are stored with every view: together they name how it was made.
    """

    producer: str
    prompt_hash: str

    async def summarise(self, job: SummaryJob) -> list[View]:
        """Both views, checked (`memory.summaries.checks`). May be cancelled at any await.

        Raises SummaryRejected for a text that must not be shown, SummaryFailed when the summariser itself broke, or
        the implementor's own errors.
        """
        ...

    async def aclose(self) -> None: ...
