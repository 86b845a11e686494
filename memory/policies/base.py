"""What most policies share: nothing to remember, and compaction left to the host."""

from __future__ import annotations

from memory.plan import NeedsSummary, PlanInput
from memory.stored import ChunkFacts


class PolicyBase:
    """Defaults of `ContextPolicy`."""

    owns_compaction = False
    needs: frozenset[str] = frozenset()

    def ingest(self, facts: ChunkFacts) -> None:
        """Nothing is kept: plans follow from their input."""

    def compact(self, given: PlanInput) -> NeedsSummary | None:
        """Handed back to the host: this policy selects, it does not compress."""
        count = len(given.pool)
        return NeedsSummary(1, count, delegated=True) if count else None
