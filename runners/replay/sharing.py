"""One recording for variants that differ in their recent window or their summaries: what can be shared is."""

from __future__ import annotations

from dataclasses import replace

from memory.summaries.config import SummaryConfig
from runners.replay.prepare import Prepared, Toolkit, prepare
from runners.replay.recording import Recording
from runners.replay.variants import Variant


class Shared:
    """`Prepared` runs of one recording, made when they are first asked for."""

    def __init__(self, recording: Recording, tools: Toolkit) -> None:
        self._recording = recording
        self._tools = tools
        self._runs: dict[tuple[SummaryConfig, int], Prepared] = {}

    def of(self, variant: Variant) -> Prepared:
        """The run that a variant walks."""
        return self.at(variant.summaries, variant.memory.recent)

    def at(self, summaries: SummaryConfig, recent: int) -> Prepared:
        """The run with these summaries and this N."""
        key = (summaries, recent)
        if key not in self._runs:
            like = next((run for (made, _), run in self._runs.items() if made == summaries), None)
            tools = replace(self._tools, summaries=summaries)
            self._runs[key] = prepare(self._recording, tools, recent) if like is None else like.with_recent(recent)
        return self._runs[key]
