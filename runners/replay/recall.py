"""Strict next-step recall: of the strings that the next action takes from old steps, how many the context shows."""

from __future__ import annotations

from collections.abc import Mapping

from memory.plan import Block
from runners.replay.engine import Shown
from runners.replay.prepare import Prepared
from runners.replay.samples import Sample
from runners.replay.strings import tokens
from runners.replay.targets import Target, strata

MEASURE = "next_step_recall"


class StrictRecall:
    """Collects one run under one variant: mean per context here, mean per run in `samples`.

    In a session of several tasks each task counts as a run.
    """

    def __init__(self, run: Prepared, targets: Mapping[int, tuple[Target, ...]]) -> None:
        self._run = run
        self._targets = targets
        self._values: dict[tuple[int, str], list[float]] = {}
        self._blocks: dict[int, frozenset[str]] = {}

    def see(self, shown: Shown) -> None:
        """Take one context into account."""
        wanted = self._targets.get(shown.step)
        if not wanted:
            return
        blocks = shown.decision.fitted.blocks if shown.decision else ()
        task = self._run.recording.question_at(shown.step).task
        for stratum, group in strata(wanted).items():
            hits = sum(self._shows(shown, target, blocks) for target in group)
            self._values.setdefault((task, stratum), []).append(hits / len(group))

    def samples(self) -> list[Sample]:
        """One value per run (task) and stratum."""
        recording = self._run.recording
        several = len(recording.questions) > 1
        return [
            Sample(MEASURE, stratum, f"{recording.id}#{task}" if several else recording.id, sum(v) / len(v))
            for (task, stratum), v in sorted(self._values.items())
        ]

    def _shows(self, shown: Shown, target: Target, blocks: tuple[Block, ...]) -> bool:
        code = int(shown.codes[target.source - 1])
        if code >= 0 and target.kept[code]:
            return True
        # a range line and a chunk that is not shown hold nothing; a text that stands for the chunk may
        return any(block.first <= target.source <= block.last and target.text in self._words(block) for block in blocks)

    def _words(self, block: Block) -> frozenset[str]:
        if block.number not in self._blocks:
            self._blocks[block.number] = tokens(block.text)
        return self._blocks[block.number]
