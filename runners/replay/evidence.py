"""Evidence recall on dialogue memories (LongMemEval, LoCoMo): are the labelled turns shown, can the answer be read?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memory.plan import FloatArray
from memory.records import Level
from runners.replay.dialogues import Asking
from runners.replay.engine import Shown, Walk
from runners.replay.planted import mentions
from runners.replay.prepare import Prepared, Toolkit, encode_queries
from runners.replay.samples import Sample
from runners.replay.sharing import Shared
from runners.replay.traffic import Traffic
from runners.replay.working import Job, Outcome, Settings

SHOWN, READABLE = "evidence_recall", "answer_in_evidence"


@dataclass(frozen=True)
class EvidenceJob(Job):
    """A dialogue under every variant: one context for each question."""

    asked: tuple[Asking, ...] = ()

    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """The state text is the question alone; nothing of one question is known to the next."""
        shared = Shared(self.recording, tools)
        step = len(self.recording.steps) + 1
        outcomes = []
        for position, variant in self.variants:
            run = shared.of(variant)
            vectors = encode_queries(tools, [run.state(step, asking.question) for asking in self.asked])
            scores = [run.scan(vector, run.old(step)) for vector in vectors]
            traffic = Traffic(run, rendering=False)
            samples = tuple(self._asked(Walk(run, variant), step, scores, traffic))
            outcomes.append(
                Outcome(position, self.recording.family, self.recording.id, samples, traffic.totals(), run.encoder_id)
            )
        return outcomes

    def _asked(self, walk: Walk, step: int, scores: Sequence[FloatArray], traffic: Traffic) -> Iterator[Sample]:
        for asking, cosines in zip(self.asked, scores, strict=True):
            shown = walk.ask(step, asking.question, cosines)
            traffic.see(shown)
            unit = f"{self.recording.id}/{asking.name}"
            share = sum(is_shown(shown, number) for number in asking.evidence) / len(asking.evidence)
            for stratum in ("all", asking.kind):
                yield Sample(SHOWN, stratum, unit, share)
            stated = asking.answer.strip() and any(
                mentions(walk.run.texts[number - 1], asking.answer) for number in asking.evidence
            )
            if stated:
                read = any(can_read(walk.run, shown, number, asking.answer) for number in asking.evidence)
                for stratum in ("all", asking.kind):
                    yield Sample(READABLE, stratum, unit, float(read))


def is_shown(shown: Shown, number: int) -> bool:
    """Whether a chunk is shown at DETAILED or FULL (or stands in the recent window)."""
    if shown.decision is None:
        return False
    return number > len(shown.codes) or int(shown.codes[number - 1]) >= Level.DETAILED


def can_read(run: Prepared, shown: Shown, number: int, answer: str) -> bool:
    """Whether an answer can be read in what is shown of a chunk, or in a text that stands for it."""
    if shown.decision is None:
        return False
    code = int(Level.FULL) if number > len(shown.codes) else int(shown.codes[number - 1])
    if code >= 0 and mentions(run.view_text(number - 1, Level(code)), answer):
        return True
    blocks = shown.decision.fitted.blocks
    return any(block.first <= number <= block.last and mentions(block.text, answer) for block in blocks)
