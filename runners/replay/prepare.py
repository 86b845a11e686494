"""From a recording to everything that contexts are planned from, built once for all policies and budgets.

Keys and query vectors go through the shared key cache, so that a second replay encodes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memory.chunking import full_text, make_chunk
from memory.encoders.cache import CachedEncoder, KeyCache
from memory.encoders.windows import state_text
from memory.errors import SummaryRejected
from memory.formats import PlainFormat
from memory.index.chunks import ChunkIndex
from memory.index.lexical import LexicalIndex
from memory.ingest import facts_of
from memory.plan import Block, FloatArray, KeyArray
from memory.ports import Encoder, TokenCounter
from memory.records import Chunk, Level, Step, View
from memory.render import Recent, fixed_tokens
from memory.summaries import checks
from memory.summaries.base import SummaryJob
from memory.summaries.config import SummaryConfig
from memory.summaries.extractive import head_and_tail, summarise
from memory.summaries.fidelity import measured
from memory.text.words import tokenize
from runners.replay.glimpses import written_out
from runners.replay.recording import Recording
from runners.replay.views import ViewCache

MOST_CHARS = 400_000
"""As in a session: a longer text is summarised from its head and tail."""
KEPT_SCORES = 4_000
"""Sessions up to this many steps keep their lexical scores and states between variants."""

MEASURED_AT_ONCE = 1_000
"""Chunks whose views are encoded together."""


@dataclass(slots=True)
class Toolkit:
    """What preparing needs, one a process."""

    encoder: Encoder
    counter: TokenCounter
    summaries: SummaryConfig
    cache: KeyCache | None = None
    views: ViewCache | None = None
    glimpse_page: int = 3_000


@dataclass(slots=True)
class Prepared:
    """One recording, ready. Rows are chunks, oldest first; ``recent`` is N.

    Since a summary of step t is visible from step t + 2 on (lockstep) and N >= 1, every old chunk has its views.
    """

    recording: Recording
    chunks: tuple[Chunk, ...]
    texts: tuple[str, ...]
    """FULL texts."""
    views: tuple[Mapping[Level, View], ...]
    """DETAILED and BRIEF of each chunk; empty where a summary was refused."""
    index: ChunkIndex
    keys: KeyArray
    encoder_id: str
    recent: int
    tools: Toolkit
    form: PlainFormat
    nonce: str
    cosine_rows: dict[int, FloatArray] = field(default_factory=dict)
    """Cosines of the old chunks by step, once asked for."""
    lexical_rows: dict[int, FloatArray] = field(default_factory=dict)
    windows: dict[int, Recent] = field(default_factory=dict)
    fixed: dict[tuple[str, bool, bool], int] = field(default_factory=dict)
    lexicon: LexicalIndex | None = None
    blocks: dict[tuple[object, ...], Block] = field(default_factory=dict)
    """Texts made for policies, by what was asked."""
    measured: bool = False
    """Whether views carry their fidelity."""

    def __len__(self) -> int:
        return len(self.chunks)

    def with_recent(self, recent: int) -> Prepared:
        """The same run with another N: texts, summaries, keys and blocks are shared."""
        return replace(self, recent=recent, cosine_rows={}, lexical_rows={}, windows={})

    def old(self, step: int) -> int:
        """How many chunks are old when ``step`` is about to be taken."""
        return max(0, step - 1 - self.recent)

    def recent_steps(self, step: int) -> tuple[Step, ...]:
        """The recent window before ``step``; the newest has its glimpses written out."""
        steps = [chunk.step for chunk in self.chunks[self.old(step) : step - 1]]
        if steps:
            steps[-1] = written_out(steps[-1], self.texts, self.tools.glimpse_page, self.tools.counter)
        return tuple(steps)

    def window(self, step: int) -> Recent:
        """The recent window as the engine costs it; kept, since its counts serve every variant."""
        if step not in self.windows:
            self.windows[step] = Recent(self.recent_steps(step), self.form, self.tools.counter)
        return self.windows[step]

    def fixed_tokens(self, question: str, with_history: bool, ledger: bool) -> int:
        """System, question and frames."""
        key = (question, with_history, ledger)
        if key not in self.fixed:
            self.fixed[key] = fixed_tokens(
                question, self.nonce, with_history, self.form, self.tools.counter, ledger=ledger
            )
        return self.fixed[key]

    def state(self, step: int, question: str | None = None) -> str:
        """The state text: the question in force and the recent window; or ``question`` alone."""
        if question is not None:
            parts: list[str] = []
        else:
            question, parts = self.question(step), [full_text(s) for s in self.recent_steps(step)]
        return state_text(question, parts, self.tools.encoder.max_tokens, self.tools.counter.count)

    def cosines(self, step: int) -> FloatArray:
        """(old,) cosines of the old chunks to the state before ``step``; all steps' at once, through the cache."""
        if step not in self.cosine_rows:
            steps = range(1, len(self) + 2)
            vectors = encode_queries(self.tools, [self.state(each) for each in steps])
            for each, vector in zip(steps, vectors, strict=True):
                self.cosine_rows[each] = self.scan(vector, self.old(each))
        return self.cosine_rows[step]

    def kinds(self, count: int) -> tuple[str, ...]:
        """Kinds of the first ``count`` chunks."""
        return tuple(facts.kind for facts in self.index.facts[:count])

    def question(self, step: int) -> str:
        """The question in force before ``step``."""
        return self.recording.question_at(step).text

    def task_from(self, step: int) -> int:
        """The first step of the question in force before ``step``."""
        return self.recording.question_at(step).from_step

    def scan(self, query: NDArray[np.float32], count: int) -> FloatArray:
        """(count,) cosines, as `KeyMatrix.cosines` gives them."""
        return np.clip((self.keys[:count] @ query).astype(np.float64), -1.0, 1.0)

    def lexical(self, step: int, question: str | None = None) -> FloatArray:
        """(old,) BM25 of the old chunks for the state text."""
        if self.lexicon is None:
            self.lexicon = LexicalIndex()
            for text in self.texts:
                self.lexicon.add(text)
        if question is None and step in self.lexical_rows:
            return self.lexical_rows[step]
        scores = self.lexicon.scores(tokenize(self.state(step, question)), self.old(step))
        if question is None and len(self) <= KEPT_SCORES:
            self.lexical_rows[step] = scores
        return scores

    def measure_fidelity(self) -> None:
        """Give the views their fidelity, as a session measures it: once a policy asks for it."""
        if self.measured:
            return
        self.measured = True
        texts = [[view.text for view in views.values()] for views in self.views]
        scored = fidelities(self.tools, self.texts, self.keys, texts)
        for views, scores in zip(self.views, scored, strict=True):
            self.index.set_views(
                (view.chunk, view.level, view.tokens, score) for view, score in zip(views.values(), scores, strict=True)
            )

    def view_text(self, row: int, level: Level) -> str:
        """The body shown of a chunk at a level; empty where it has none of its own."""
        if level is Level.FULL:
            return self.texts[row]
        if level is Level.PLACEHOLDER:
            return self.chunks[row].placeholder
        view = self.views[row].get(level)
        return view.text if view is not None else ""


def prepare(recording: Recording, tools: Toolkit, recent: int) -> Prepared:
    """Chunks, summaries and keys of a recording. Raises EncoderFault."""
    counter = tools.counter
    chunks = tuple(make_chunk(step, counter) for step in recording.steps)
    texts = tuple(full_text(chunk.step) for chunk in chunks)
    index = ChunkIndex()
    found: list[Mapping[Level, View]] = []
    for chunk, text in zip(chunks, texts, strict=True):
        index.append(facts_of(chunk))
        number = chunk.step.number
        views = chunk_views(SummaryJob(number, text, question_of(recording, chunk.step), chunk.tokens_full), tools)
        index.set_views((view.chunk, view.level, view.tokens, view.fidelity) for view in views)
        found.append({view.level: view for view in views})
    keys = tools.encoder.encode_documents(texts) if texts else np.zeros((0, tools.encoder.dim), dtype=np.float32)
    nonce = hashlib.sha256(recording.id.encode()).hexdigest()[:8]
    form = PlainFormat(recording.system)
    return Prepared(recording, chunks, texts, tuple(found), index, keys, tools.encoder.id, recent, tools, form, nonce)


def question_of(recording: Recording, step: Step) -> str:
    """The question that a step worked on."""
    return recording.question_at(step.number).text


def chunk_views(job: SummaryJob, tools: Toolkit) -> list[View]:
    """DETAILED and BRIEF as the session's extractive summariser makes them; none where they were refused."""
    config = tools.summaries
    if config.kind == "off":
        return []
    key = (job.text, job.question, config.profile, config.detailed_tokens, config.brief_tokens)
    pair = tools.views.get(key) if tools.views else None
    if pair is None:
        pair = summarise(
            head_and_tail(job.text, MOST_CHARS),
            job.question,
            config.profile,
            detailed_tokens=config.detailed_tokens,
            brief_tokens=config.brief_tokens,
            count=tools.counter.count,
        )
        if tools.views:
            tools.views.put(key, pair)
    detailed, brief = checks.settled(job, *pair, tools.counter)
    try:
        return checks.views(job, detailed, brief, tools.counter, producer="extractive", prompt_hash="")
    except SummaryRejected:
        return []


def fidelities(
    tools: Toolkit, fulls: Sequence[str], keys: KeyArray, views: Sequence[Sequence[str]]
) -> list[tuple[float, ...]]:
    """Fidelity of every chunk's views, whose FULL text and key stand at the same row; kept with the summaries, not as
    vectors. Many are encoded at once, so that texts of one length share a batch."""
    names = [(tools.encoder.id, full, *texts) for full, texts in zip(fulls, views, strict=True)]
    found = [tools.views.fidelity(name) if tools.views else None for name in names]
    missing = [row for row, known in enumerate(found) if known is None]
    for start in range(0, len(missing), MEASURED_AT_ONCE):
        rows = missing[start : start + MEASURED_AT_ONCE]
        for row, scores in zip(rows, _measured(tools, rows, fulls, keys, views), strict=True):
            found[row] = scores
            if tools.views:
                tools.views.put_fidelity(names[row], scores)
    return [scores or () for scores in found]


def _measured(
    tools: Toolkit, rows: Sequence[int], fulls: Sequence[str], keys: KeyArray, views: Sequence[Sequence[str]]
) -> Iterator[tuple[float, ...]]:
    encoder = tools.encoder.inner if isinstance(tools.encoder, CachedEncoder) else tools.encoder
    texts = list(dict.fromkeys(text for row in rows for text in views[row] if text != fulls[row].strip()))
    vectors = dict(zip(texts, encoder.encode_documents(texts), strict=True)) if texts else {}
    for row in rows:
        cosines = np.array([vectors[text] @ keys[row] if text in vectors else 1.0 for text in views[row]], np.float64)
        made = measured([View(1, Level.DETAILED, text, 0) for text in views[row]], fulls[row], cosines)
        yield tuple(view.fidelity or 0.0 for view in made)


def encode_queries(tools: Toolkit, texts: Sequence[str]) -> NDArray[np.float32]:
    """(len(texts), dim) query vectors, kept in the key cache under a name of their own."""
    encoder, cache = tools.encoder, tools.cache
    name = f"{encoder.id} query"
    rows = np.zeros((len(texts), encoder.dim), dtype=np.float32)
    found = cache.get_many(name, encoder.dim, texts) if cache else [None] * len(texts)
    fresh = [at for at, vector in enumerate(found) if vector is None]
    for at, vector in enumerate(found):
        rows[at] = encoder.encode_query(texts[at]) if vector is None else vector
    if cache and fresh:
        cache.put_many(name, encoder.dim, [texts[at] for at in fresh], rows[fresh])
    return rows
