"""One cell of a stress run: a session that is opened, or taken up, and worked on until something ends it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from pydantic import TypeAdapter

from agent.events import Bus
from memory.records import ChunkRef, JsonValue
from runners.bench.journal import Journal, read_journal
from runners.bench.results import validated
from runners.bench.tasks import Benchmark, Dataset
from runners.config import stored_config
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder
from runners.replay.planted import Asked, Page, read_collection
from runners.stress.facts import Facts
from runners.stress.plan import Cell, StressPlan, Work
from runners.stress.probes import Prober, ProbeRow, shadows
from runners.stress.recorder import Recorder, StepFile
from runners.stress.workloads import AnswerRow, Asking, End, Place, Visiting, ordered
from runners.toolbox import Inputs
from runners.wiring import OpenSession, SessionRequest, open_session

SESSION, STEPS, PROBES, ANSWERS, ENDS = "session", "steps.csv", "probes.jsonl", "answers.jsonl", "ends.jsonl"
GLIMPSES = 200
"""Chunks that are glimpsed when a cell stops."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Material:
    """What all cells work with. ``questions`` and ``pages`` are empty where the benchmark has no pages of its own:
    then nothing is probed."""

    benchmark: Benchmark
    dataset: Dataset
    questions: Sequence[Asked] = ()
    pages: Mapping[str, Page] = field(default_factory=dict)


def material(work: Work, benchmark: Benchmark, dataset: Dataset) -> Material:
    """Raises UsageFault."""
    if benchmark.name != "multihop":
        if work.workload == "visits":
            raise UsageFault(f"--workload visits needs pages: {benchmark.name} brings none", hint="take multihop")
        return Material(benchmark, dataset)
    path = Path(work.data)
    questions, pages = read_collection(path if path.is_dir() else path.parent)
    return Material(benchmark, dataset, questions, pages)


@dataclass(frozen=True, slots=True)
class Now:
    """Where a cell stands, for whoever watches."""

    label: str
    steps: int
    of: int
    tokens: float
    budget: int
    pressure: float
    shown: tuple[int, int]
    """Probes that were shown what they asked for, of how many."""
    right: tuple[int, int]
    """Questions answered right, of how many."""
    pending: int


Told = Callable[[Now], None]


@dataclass(frozen=True, slots=True)
class CellEnd:
    """What ``ends.jsonl`` says of a stop."""

    status: str
    message: str
    final: bool
    steps: int
    seconds: float
    ended: float
    glimpse_p50_s: float | None = None
    """Of chunks drawn from the whole session: how long a glimpse took."""
    glimpse_max_s: float | None = None


def read_probes(folder: Path) -> list[ProbeRow]:
    """Raises UsageFault."""
    return _rows(ProbeRow, folder / PROBES)


def read_answers(folder: Path) -> list[AnswerRow]:
    """Raises UsageFault."""
    return _rows(AnswerRow, folder / ANSWERS)


def read_ends(folder: Path) -> list[CellEnd]:
    """Every stop, in order. Raises UsageFault."""
    return _rows(CellEnd, folder / ENDS)


def _rows(kind: type[T], path: Path) -> list[T]:
    adapter = TypeAdapter(kind)
    return [validated(adapter, value, f"{path}:{at}") for at, value in read_journal(path)]


@dataclass(frozen=True, slots=True)
class Job:
    """A cell, where it stands, and what it works with. ``session``: the folder of its session. ``until``: on the
    monotonic clock."""

    plan: StressPlan
    cell: Cell
    folder: Path
    session: Path
    given: Material
    environment: Environment
    told: Told
    until: float | None = None

    @property
    def finished(self) -> CellEnd | None:
        """Its end, when there is nothing left to do."""
        ends = read_ends(self.folder)
        if not ends or not ends[-1].final:
            return None
        more = ends[-1].status == "capped" and ends[-1].steps < self.plan.work.steps
        return None if more else ends[-1]

    def request(self) -> SessionRequest:
        """The session as it was left, or a new one; what was killed while it was made is made anew."""
        place = SessionFolder(self.session)
        place.path.mkdir(parents=True, exist_ok=True)
        new = not (place.store.exists() and place.config.exists())
        if new:
            place.discard()
            place.path.mkdir(parents=True, exist_ok=True)
        config = stored_config(self.cell.config, self.cell.label) if new else None
        files = tuple(dict.fromkeys(file for task in self.given.dataset.tasks for file in task.files))
        inputs = Inputs(self.plan.work.corpus or self.given.dataset.corpus, files)
        return SessionRequest(place, self.environment, Bus(), config, inputs)


async def run_cell(job: Job) -> CellEnd:
    """Work on a cell until it ends, its steps are taken, or the time is up; one that has ended is not touched.

    Interrupted at any time, the same call goes on from the last committed step. Raises UsageFault, ConfigError,
    AuthFailed, StoreBusy.
    """
    known = job.finished
    if known is not None:
        return known
    started, folder = time.monotonic(), job.folder
    with ExitStack() as files:
        ends, probes, answers = (files.enter_context(Journal(folder / name)) for name in (ENDS, PROBES, ANSWERS))
        steps = StepFile(folder / STEPS)
        files.callback(steps.close)
        recorder, request = Recorder(steps), job.request()
        request.bus.subscribe(recorder.on_event)
        async with open_session(request) as opened:
            await steps.catch_up(opened.store, opened.memory.steps)
            end = await _work(job, opened, recorder, Written(folder, probes, answers, job.given.benchmark.private))
            glimpses = await _glimpses(opened)
            made = CellEnd(
                status=end.status,
                message=end.message,
                final=end.final,
                steps=opened.memory.steps,
                seconds=round(time.monotonic() - started, 3),
                ended=time.time(),
                glimpse_p50_s=median(glimpses) if glimpses else None,
                glimpse_max_s=max(glimpses, default=None),
            )
        ends.append(asdict(made))
    return made


@dataclass(slots=True)
class Written:
    """What a cell has on record of probes and answers. ``private``: answers may not be written in plaintext."""

    folder: Path
    probes: Journal
    answers: Journal
    private: bool
    answered: list[AnswerRow] = field(init=False)

    def __post_init__(self) -> None:
        self.answered = read_answers(self.folder)

    def keep(self, row: AnswerRow) -> None:
        """Write an answer down."""
        row = replace(row, answer="" if self.private else row.answer)
        line: dict[str, JsonValue] = asdict(row)
        self.answers.append(line)
        self.answered.append(row)


async def _work(job: Job, opened: OpenSession, recorder: Recorder, written: Written) -> End:
    work, given, cell = job.plan.work, job.given, job.cell
    facts = Facts(given.questions, given.pages)
    prober = Prober(
        opened,
        facts,
        work.distances,
        work.probe_every if given.pages else 0,
        written.probes,
        cell.policy,
        shadows(work.also, cell.budget),
        work.read,
        read_probes(job.folder),
    )

    def tell() -> None:
        shown = [row.shown for row in prober.rows if row.policy == cell.policy]
        right = sum(row.right for row in written.answered)
        job.told(
            Now(
                cell.label,
                opened.memory.steps,
                work.steps,
                recorder.row.tokens,
                cell.budget,
                recorder.row.pressure,
                (sum(shown), len(shown)),
                (right, len(written.answered)),
                opened.memory.pending_summaries,
            )
        )

    place = Place(opened, work, facts, recorder, prober, tell, job.until)
    if work.workload == "visits":
        return await Visiting(place, given.pages).run()
    tasks = {task.id: task for task in given.dataset.tasks}
    order = ordered(tasks, work.seed)
    return await Asking(place, given.benchmark, order, written.keep, len(written.answered)).run()


async def _glimpses(opened: OpenSession) -> list[float]:
    """Seconds of glimpses of chunks anywhere in the session."""
    last, found = opened.memory.steps, []
    for number in random.Random(last).sample(range(1, last + 1), min(GLIMPSES, last)):
        started = time.perf_counter()
        await opened.memory.recall.expand(ChunkRef(number))
        found.append(round(time.perf_counter() - started, 6))
    return found
