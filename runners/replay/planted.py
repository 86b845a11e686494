"""Planted recall: a long session of recorded visits, made of multi-hop questions and their pages; later its facts are
asked for again.

The session visits every page of every question once, questions in a seeded order, each question in force while its
pages are read. A probe asks one of them again, d steps after the page that holds the answer was visited: the context
is built with the question as the state text, and it hits when the answer-bearing sentence of that page can be read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.ingest import clean_step
from memory.plan import Block, FloatArray
from memory.records import Level, Observation, Source, Step, ToolCall
from memory.sanitize import sanitize
from memory.stored import Question
from memory.text.sentences import split
from runners.errors import UsageFault
from runners.replay.engine import Shown, Walk
from runners.replay.jsonlines import lines
from runners.replay.prepare import Prepared, Toolkit, encode_queries
from runners.replay.recording import Recording
from runners.replay.samples import Sample
from runners.replay.sharing import Shared
from runners.replay.traffic import Traffic
from runners.replay.working import Job, Outcome, Settings

MEASURE = "planted_recall"
DISTANCES = (10, 30, 100, 300, 1_000, 10_000)
STRIDE = 8
"""Between probes a context is built at every so many steps (a multiple of `MemoryConfig.batch`)."""
PROBES = 100
"""Most probes at one distance in one session."""
_SPACE = re.compile(r"\s+")
M = TypeVar("M", bound=BaseModel)


class Page(BaseModel):
    """A page of the collection."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    page_id: str
    title: str
    text: str


class Asked(BaseModel):
    """A question of the collection."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    question: str
    answer: str
    aliases: list[str] = Field(default_factory=list)
    supporting_pages: list[str] = Field(min_length=1)
    context_pages: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Probe:
    """``question`` asked before ``step``; the answer stands in ``sentence`` of chunk ``source``."""

    name: str
    question: str
    step: int
    source: int
    sentence: str

    @property
    def distance(self) -> int:
        return self.step - self.source


@dataclass(frozen=True, slots=True)
class PlantedSession:
    """A session and what is asked of it. ``unusable``: of the questions in it, those whose answer no visited
    supporting page states."""

    recording: Recording
    probes: tuple[Probe, ...]
    unusable: int


def read_collection(folder: Path) -> tuple[list[Asked], dict[str, Page]]:
    """Questions and pages from ``questions.jsonl(.gz)`` and ``pages.jsonl(.gz)``. Raises UsageFault."""
    questions = [_checked(Asked, value, where) for where, value in _rows(folder, "questions")]
    pages = [_checked(Page, value, where) for where, value in _rows(folder, "pages")]
    return questions, {page.page_id: page for page in pages}


def build_session(
    questions: Sequence[Asked], pages: Mapping[str, Page], visits: int, seed: int, probes: int = PROBES
) -> PlantedSession:
    """A session of ``visits`` visits. Raises UsageFault when the pages do not suffice."""
    rng = random.Random(seed)
    order = list(questions)
    rng.shuffle(order)
    steps: list[Step] = []
    asked: list[Question] = []
    put: list[Asked] = []
    where: dict[str, int] = {}
    for question in order:
        fresh = [p for p in dict.fromkeys([*question.context_pages, *question.supporting_pages]) if p not in where]
        fresh = [page for page in fresh if page in pages]
        if not fresh or len(steps) >= visits:
            continue
        rng.shuffle(fresh)
        put.append(question)
        asked.append(Question(len(asked) + 1, sanitize(question.question), len(steps) + 1, 0.0))
        for page_id in fresh[: visits - len(steps)]:
            where[page_id] = len(steps) + 1
            steps.append(visit_step(pages[page_id], len(steps) + 1, len(asked)))
    if len(steps) < visits:
        raise UsageFault(f"the collection has pages for {len(steps)} visits, not {visits}")
    usable = [(q, found) for q in put if (found := evidence(q, pages, where)) is not None]
    recording = Recording(f"planted-{seed}", "planted", tuple(steps), tuple(asked))
    return PlantedSession(recording, _probes(usable, visits, rng, probes), len(asked) - len(usable))


def visit_step(page: Page, number: int, task: int) -> Step:
    """A page as a visit of it."""
    url = f"http://corpus.local/{page.page_id}"
    call = ToolCall(f"s{number}.0", "visit", {"urls": [url]})
    seen = Observation(call.id, "visit", f"{page.title}\n{page.text}", sources=(Source(url, page.title),))
    return clean_step(Step(number, calls=(call,), observations=(seen,), task=task))


def evidence(question: Asked, pages: Mapping[str, Page], where: Mapping[str, int]) -> tuple[int, str] | None:
    """(visit, sentence) that states the answer in the first visited supporting page that does. None where there is
    none, where the answer is yes or no, or where the question itself gives it away."""
    answers = [answer for answer in (question.answer, *question.aliases) if answer.strip()]
    if question.answer.strip().lower() in ("yes", "no") or any(mentions(question.question, a) for a in answers):
        return None
    for page_id in question.supporting_pages:
        if page_id not in where:
            continue
        for sentence in split(sanitize(pages[page_id].text)):
            if any(mentions(sentence, answer) for answer in answers):
                return where[page_id], sentence
    return None


def mentions(text: str, answer: str) -> bool:
    """Whether a text holds an answer as whole words, case aside."""
    return bool(re.search(rf"(?<!\w){re.escape(plain(answer))}(?!\w)", plain(text)))


def plain(text: str) -> str:
    """Case and white space aside."""
    return _SPACE.sub(" ", text).strip().casefold()


def _probes(
    usable: Sequence[tuple[Asked, tuple[int, str]]], visits: int, rng: random.Random, most: int
) -> tuple[Probe, ...]:
    found: list[Probe] = []
    for distance in DISTANCES:
        fitting = [item for item in usable if item[1][0] + distance <= visits + 1]
        for question, (source, sentence) in rng.sample(fitting, min(most, len(fitting))):
            found.append(Probe(question.id, sanitize(question.question), source + distance, source, sentence))
    return tuple(sorted(found, key=lambda probe: (probe.step, probe.name)))


def _rows(folder: Path, name: str) -> list[tuple[str, object]]:
    path = next((p for p in (folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl") if p.is_file()), None)
    if path is None:
        raise UsageFault(f"{folder}: no {name}.jsonl or {name}.jsonl.gz")
    return [(f"{path}:{number}", value) for number, value in lines(path)]


def _checked(model: type[M], value: object, where: str) -> M:
    if isinstance(value, str):
        raise UsageFault(value)
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        first = fault.errors()[0]
        raise UsageFault(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from fault


@dataclass(frozen=True)
class PlantedJob(Job):
    """A planted session under every variant."""

    probes: tuple[Probe, ...] = ()
    stride: int = STRIDE

    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """Walk it once per variant; probes leave no trace in it. A request is compared with the one before it only at
        stride 1."""
        shared = Shared(self.recording, tools)
        last = max((probe.step for probe in self.probes), default=len(self.recording.steps))
        outcomes = []
        for position, variant in self.variants:
            run = shared.of(variant)
            vectors = encode_queries(tools, [run.state(probe.step, probe.question) for probe in self.probes])
            cosines = [run.scan(v, run.old(p.step)) for p, v in zip(self.probes, vectors, strict=True)]
            traffic = Traffic(run, rendering=settings.rendering, price=settings.price)
            samples = tuple(self._walked(Walk(run, variant), last, cosines, traffic))
            outcomes.append(
                Outcome(position, self.recording.family, self.recording.id, samples, traffic.totals(), run.encoder_id)
            )
        return outcomes

    def _walked(self, walk: Walk, last: int, cosines: Sequence[FloatArray], traffic: Traffic) -> Iterator[Sample]:
        waiting = list(zip(self.probes, cosines, strict=True))
        seen = Sentences(walk.run)
        for step in range(1, last + 1):
            # before the step's own context: what the probe gets must not know what comes after it
            while waiting and waiting[0][0].step == step:
                probe, scores = waiting.pop(0)
                shown = walk.ask(step, probe.question, scores)
                hit = seen.visible(shown, probe.source, probe.sentence)
                unit = f"{self.recording.id}/{probe.name}/{probe.distance}"
                yield Sample(MEASURE, str(probe.distance), unit, float(hit))
            if step <= len(walk.run) and step % self.stride == 0:
                traffic.see(walk.step(step))


class Sentences:
    """Which sentences can be read in a context."""

    def __init__(self, run: Prepared) -> None:
        self._run = run
        self._known: dict[tuple[int, int, str], bool] = {}

    def visible(self, shown: Shown, source: int, sentence: str) -> bool:
        """Whether ``sentence`` of chunk ``source`` stands in what is shown of it, white space and case aside."""
        if shown.decision is None:
            return False
        if source > len(shown.codes):
            return True
        code = int(shown.codes[source - 1])
        if code >= 0:
            key = (source, code, sentence)
            if key not in self._known:
                text = self._run.view_text(source - 1, Level(code))
                self._known[key] = plain(sentence) in plain(text)
            if self._known[key]:
                return True
        return any(_holds(block, source, sentence) for block in shown.decision.fitted.blocks)


def _holds(block: Block, source: int, sentence: str) -> bool:
    return block.first <= source <= block.last and plain(sentence) in plain(block.text)
