"""Generated sessions of any length: steps of real text, planned without rendering a single one.

A session draws its steps from a set of templates, each a visit of some 3,400 tokens put together from pages. Counts,
summaries and keys are those of the templates; the query is the mean of the question's and the recent steps' vectors,
so that cosines are one lookup a chunk. That is what makes 100,000 steps a matter of minutes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.index.chunks import ChunkIndex
from memory.index.lexical import LexicalIndex
from memory.ingest import clean_step, facts_of
from memory.plan import FloatArray, IntArray
from memory.records import Level, Observation, Source, Step, ToolCall
from memory.render import Recent
from memory.text.words import tokenize
from runners.replay.prepare import Prepared, Toolkit, prepare
from runners.replay.prose import pages
from runners.replay.recording import Recording, single_question

STEP_TOKENS = 3_400
TEMPLATES = 400
QUESTION = "Which of the places described was surveyed first, by whom, and what did the neighbouring one cost?"
_WIDE = 1_000_000
"""Templates are counted under ids of this width: a bound for every step's header."""


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generated session is made from. ``source``: pages by path (None: prose of our own)."""

    steps: int = 10_000
    seed: int = 0
    source: Path | None = None
    step_tokens: int = STEP_TOKENS
    templates: int = TEMPLATES


def template_recording(given: Generated, tools: Toolkit) -> Recording:
    """The templates as a recording: one visit each, about ``step_tokens`` tokens."""
    rng = random.Random(given.seed)
    stock = pages(given.source, given.seed)
    counter = tools.counter
    steps: list[Step] = []
    for number in range(1, given.templates + 1):
        parts: list[str] = []
        left = given.step_tokens
        while left > 0:
            page = rng.choice(stock)
            size = counter.count(page)
            parts.append(page if size <= left + 60 else page[: len(page) * left // size])
            left -= size
        title = parts[0].partition("\n")[0][:60]
        url = f"http://corpus.local/g{number}"
        call = ToolCall("t.0", "visit", {"urls": [url]})
        seen = Observation(call.id, "visit", "\n\n".join(parts), sources=(Source(url, title),))
        steps.append(clean_step(Step(number, thought=f"Read about {title}.", calls=(call,), observations=(seen,))))
    name = f"generated-{given.seed}-{given.templates}-{given.step_tokens}"
    return Recording(name, "generated", tuple(steps), single_question(QUESTION))


@dataclass(slots=True)
class Endless(Prepared):
    """A prepared run whose step t shows the template ``order[t - 1]``."""

    order: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    base: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(T,) similarity of each template to the question."""
    gram: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    """(T, T) similarities of templates; of a template to itself: as to the one most like it. Two steps from one
    template stand for two pages on one thing, not for one page read twice."""
    all_kinds: tuple[str, ...] = ()
    costs: dict[int, Recent] = field(default_factory=dict)
    """Recent windows by template."""

    def __len__(self) -> int:
        return len(self.order)

    def with_recent(self, recent: int) -> Endless:
        return replace(self, recent=recent)

    def recent_steps(self, step: int) -> tuple[Step, ...]:
        rows = self.order[self.old(step) : step - 1].tolist()
        return tuple(replace(self.chunks[row].step, number=step - len(rows) + at) for at, row in enumerate(rows))

    def window(self, step: int) -> Recent:
        # windows are costed by their templates, and not kept: a long session has as many as steps
        return Windows([self._costed(row) for row in self.order[self.old(step) : step - 1].tolist()])

    def cosines(self, step: int) -> FloatArray:
        old = self.old(step)
        rows = self.order[old : step - 1].tolist()
        scores = self.base + self.gram[rows].sum(axis=0)
        among = self.gram[np.ix_(rows, rows)]
        np.fill_diagonal(among, 1.0)
        norm = 1.0 + 2.0 * float(self.base[rows].sum()) + float(among.sum())
        by_template: FloatArray = np.clip(scores / max(1e-9, norm) ** 0.5, -1.0, 1.0).astype(np.float64)
        return by_template[self.order[:old]]

    def lexical(self, step: int, question: str | None = None) -> FloatArray:
        if self.lexicon is None:
            self.lexicon = LexicalIndex()
            for text in self.texts:
                self.lexicon.add(text)
        old = self.old(step)
        words = [word for row in self.order[old : step - 1].tolist() for word in tokenize(self.texts[row])]
        return self.lexicon.scores([*tokenize(QUESTION), *words], len(self.texts))[self.order[:old]]

    def kinds(self, count: int) -> tuple[str, ...]:
        return self.all_kinds[:count]

    def question(self, step: int) -> str:
        return QUESTION

    def task_from(self, step: int) -> int:
        return 1

    def view_text(self, row: int, level: Level) -> str:
        return Prepared.view_text(self, int(self.order[row]), level)

    def measure_fidelity(self) -> None:
        """Measured on the templates when the session was made."""

    def _costed(self, row: int) -> Recent:
        if row not in self.costs:
            step = replace(self.chunks[row].step, number=_WIDE)
            self.costs[row] = Recent((step,), self.form, self.tools.counter)
        return self.costs[row]


class Windows(Recent):
    """A recent window as the sum of its steps."""

    def __init__(self, parts: Sequence[Recent]) -> None:
        self._parts = parts

    def tokens(self, cap: int | None) -> int:
        return sum(part.tokens(cap) for part in self._parts)


def generate(given: Generated, tools: Toolkit, recent: int = 2) -> Endless:
    """A session of ``given.steps`` steps, ready to be walked."""
    made = prepare(template_recording(given, tools), tools, recent)
    made.measure_fidelity()
    rng = np.random.default_rng(given.seed)
    order = rng.integers(0, len(made), given.steps)
    index = _index(made, order)
    question = tools.encoder.encode_query(QUESTION)
    gram = made.keys @ made.keys.T
    np.fill_diagonal(gram, -1.0)
    np.fill_diagonal(gram, gram.max(axis=1))
    return Endless(
        made.recording,
        made.chunks,
        made.texts,
        made.views,
        index,
        made.keys[order],
        made.encoder_id,
        recent,
        tools,
        made.form,
        made.nonce,
        measured=True,
        order=order,
        base=(made.keys @ question).astype(np.float64),
        gram=gram,
        all_kinds=("act",) * given.steps,
    )


def _index(made: Prepared, order: IntArray) -> ChunkIndex:
    """Facts and counts of every step; ids are counted at their widest."""
    counter = made.tools.counter
    extra = counter.count(f"### c{_WIDE} ") - counter.count("### c1 ")
    facts = [facts_of(chunk) for chunk in made.chunks]
    wide = [
        replace(fact, tokens_full=fact.tokens_full + extra, tokens_placeholder=fact.tokens_placeholder + extra)
        for fact in facts
    ]
    index = ChunkIndex()
    rows = order.tolist()
    for number, row in enumerate(rows, start=1):
        index.append(replace(wide[row], number=number))
    fidelity = made.index.fidelity(len(made))
    index.set_views(_views(made, rows, extra, fidelity))
    return index


def _views(
    made: Prepared, rows: Sequence[int], extra: int, fidelity: FloatArray
) -> Iterator[tuple[int, Level, int, float | None]]:
    for number, row in enumerate(rows, start=1):
        for level, view in made.views[row].items():
            yield number, level, view.tokens + extra, float(fidelity[row, level])
