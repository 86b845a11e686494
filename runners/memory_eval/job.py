"""One dialogue under every cell of the grid: contexts, what they show, and what is answered over them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from memory.plan import FloatArray
from runners.memory_eval.answers import locomo_score, matches, overlap
from runners.memory_eval.cells import Cell
from runners.memory_eval.contexts import context_text
from runners.memory_eval.fillers import inject
from runners.memory_eval.measures import Found, found
from runners.memory_eval.readers import Answer, Grader, Kept, Model, Reader
from runners.replay.dialogues import Asking, Dialogue
from runners.replay.engine import Shown, Walk
from runners.replay.prepare import Prepared, Toolkit, encode_queries
from runners.replay.recording import Recording
from runners.replay.sharing import Shared
from runners.replay.working import Settings, Work
from runners.scoring.judge import Grade

Key: TypeAlias = tuple[str, str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One question in one cell: what is kept of it. Neither question nor gold is written down.

    ``budget_tokens`` is what the cell's budget came to, ``tokens`` what the turns took of it. ``match`` and ``f1`` are
    scores without a model (LoCoMo: the official one is ``f1``); ``grade`` is the judge's, empty without one; ``failed``
    says why a reader gave no answer.
    """

    dialogue: str
    question: str
    kind: str
    answerable: bool
    selector: str
    digest: str
    budget: str
    redundancy: int
    budget_tokens: int
    tokens: int
    found: Found
    spread: float
    encoder: str
    answer: str | None = None
    match: float | None = None
    f1: float | None = None
    grade: Grade | None = None
    failed: str = ""

    @property
    def key(self) -> Key:
        """What it is the result of."""
        return (self.dialogue, self.question, self.selector, self.digest, self.budget, self.redundancy)


@dataclass(frozen=True)
class MemoryJob(Work[list[Line]]):
    """``todo``: what is not known yet, as (cell, question names). ``kept``: folder of answers, None to keep none."""

    given: Dialogue
    todo: tuple[tuple[Cell, frozenset[str]], ...]
    seed: int = 0
    reader: Model | None = None
    judge: Model | None = None
    kept: Path | None = None

    @property
    def recording(self) -> Recording:  # type: ignore[override]
        """The dialogue without fillers: all redundancies share its summaries."""
        return self.given.recording

    def run(self, tools: Toolkit, settings: Settings) -> list[Line]:
        """A line for every cell and question. Raises AuthFailed, ModelMissing, EncoderFault."""
        return asyncio.run(self._run(tools))

    async def _run(self, tools: Toolkit) -> list[Line]:
        lines: list[Line] = []
        async with AsyncExitStack() as stack:
            asking = _Asking(await self._reader(stack), await self._grader(stack))
            for redundancy in dict.fromkeys(cell.redundancy for cell, _ in self.todo):
                given = inject(self.given, redundancy, self.seed)
                shared = Shared(given.recording, tools)
                scores: dict[int, dict[str, FloatArray]] = {}
                for cell, names in self.todo:
                    if cell.redundancy == redundancy:
                        run = shared.of(cell.variant)
                        if id(run) not in scores:
                            scores[id(run)] = _cosines(run, given.asked)
                        asked = [item for item in given.asked if item.name in names]
                        lines += await asking.lines(cell, run, asked, scores[id(run)])
        return lines

    async def _reader(self, stack: AsyncExitStack) -> Reader | None:
        if self.reader is None:
            return None
        backbone = self.reader.make()
        stack.push_async_callback(backbone.aclose)
        return Reader(self.reader, backbone, self._file(self.reader))

    async def _grader(self, stack: AsyncExitStack) -> Grader | None:
        if self.judge is None:
            return None
        backbone = self.judge.make()
        stack.push_async_callback(backbone.aclose)
        return Grader(self.judge, backbone, self._file(self.judge))

    def _file(self, model: Model) -> Kept:
        name = hashlib.sha256(f"{self.recording.family} {self.recording.id}".encode()).hexdigest()[:24]
        return Kept(self.kept / model.id / f"{name}.jsonl" if self.kept is not None else None)


def _cosines(run: Prepared, asked: Sequence[Asking]) -> dict[str, FloatArray]:
    """The state text is the question alone; nothing of one question is known to the next."""
    step = len(run) + 1
    vectors = encode_queries(run.tools, [run.state(step, item.question) for item in asked])
    return {item.name: run.scan(vector, run.old(step)) for item, vector in zip(asked, vectors, strict=True)}


@dataclass(frozen=True, slots=True)
class _Asking:
    """Who answers and grades, if anybody does."""

    reader: Reader | None
    grader: Grader | None

    async def lines(
        self, cell: Cell, run: Prepared, asked: Sequence[Asking], scores: dict[str, FloatArray]
    ) -> list[Line]:
        """One cell's lines."""
        made = list(_contexts(cell, run, asked, scores))
        if self.reader is None:
            return [line for line, _, _ in made]
        return list(
            await asyncio.gather(
                *(self._answered(line, item, context_text(run, shown, item.question)) for line, item, shown in made)
            )
        )

    async def _answered(self, line: Line, asked: Asking, context: str) -> Line:
        assert self.reader is not None
        # where no context could be built there is nothing to answer from
        said = await self.reader.answer(asked, context) if context else Answer()
        if said.failed:
            return replace(line, failed=said.failed, grade="ungraded" if self.grader is not None else None)
        grade = await self.grader.grade(asked, said.text) if self.grader is not None else None
        if asked.kind.startswith("category-"):
            return replace(line, answer=said.text, f1=locomo_score(said.text, asked), grade=grade)
        match, shared = matches(said.text, asked), overlap(said.text, asked)
        return replace(line, answer=said.text, match=match, f1=shared, grade=grade)


def _contexts(
    cell: Cell, run: Prepared, asked: Sequence[Asking], scores: dict[str, FloatArray]
) -> Iterator[tuple[Line, Asking, Shown]]:
    step = len(run) + 1
    variant = cell.sized(sum(facts.tokens_full for facts in run.index.facts))
    walk = Walk(run, variant)
    for item in asked:
        cosines = scores[item.name]
        shown = walk.ask(step, item.question, cosines)
        line = Line(
            run.recording.id,
            item.name,
            item.kind,
            item.answerable,
            cell.selector,
            cell.digest,
            cell.budget.label,
            cell.redundancy,
            variant.budget,
            shown.history_tokens,
            found(run, shown, item),
            float(cosines.std()) if len(cosines) else 0.0,
            run.encoder_id,
        )
        yield line, item, shown
