"""What the question in force has used so far: its limits, told of every call, also those of the background."""

from __future__ import annotations

from collections.abc import Iterable

from agent.limits import Limits, LimitsConfig
from memory.ports import ChunkStore, Clock
from memory.stored import UsageRow


class Spending:
    """Limits per question over one store."""

    def __init__(self, config: LimitsConfig, clock: Clock, store: ChunkStore, spent: Iterable[UsageRow] = ()) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self.limits = Limits(config, clock, spent=spent)

    def start_question(self) -> None:
        """A new question begins with nothing used."""
        self.limits = Limits(self._config, self._clock)

    async def record(self, row: UsageRow) -> None:
        """A call outside the loop (a summary, a judge): stored, and counted."""
        await self._store.add_usage(row)
        self.limits.record(row)
