"""The evaluation that a command line asks for, from its data to its report."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from runners.errors import UsageFault
from runners.memory_eval.cells import Cell, Grid, GridRequest, make_grid
from runners.memory_eval.job import Key, Line, MemoryJob
from runners.memory_eval.readers import Model
from runners.memory_eval.report import MemoryReport, differences_of, rows_of
from runners.memory_eval.results import Header, Results
from runners.replay.dialogues import Dialogue, data_files, read_all
from runners.replay.working import Settings, results

SetName: TypeAlias = Literal["longmemeval", "locomo"]
Unit: TypeAlias = tuple[str, str]
"""A question, by its dialogue's id and its own name."""


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """Inputs and settings of one evaluation. ``limit``: this many questions, evenly spaced over the data."""

    set: SetName
    data: Path
    grid: GridRequest
    reader: Model | None = None
    judge: Model | None = None
    limit: int | None = None
    seed: int = 0
    workers: int = 1
    rows: Path | None = None
    """Where results are kept as they come, and taken from; None: nowhere."""
    cache: Path | None = None
    api_key: str | None = None
    done: Callable[[int, int], None] | None = None
    """Told how many dialogues of how many are done."""


def evaluate(request: MemoryRequest) -> MemoryReport:
    """Every question in every cell. Raises UsageFault, ConfigError, EncoderFault, AuthFailed, ModelMissing."""
    started = time.monotonic()
    grid = make_grid(request.grid)
    for model in (request.reader, request.judge):
        # a key or a model that is missing is said before anything is read; a script says nothing unless it is asked
        if model is not None and model.config.kind != "scripted":
            asyncio.run(model.make().aclose())
    dialogues = _read(request)
    wanted = chosen(dialogues, request.limit)
    with Results(request.rows, _header(request, grid)) if request.rows else nullcontext() as kept:
        # what failed is tried again
        known = {key: line for key, line in kept.known.items() if not line.failed} if kept else {}
        jobs = [job for one in dialogues if (job := _job(one, grid.cells, wanted, known, request)) is not None]
        computed = 0
        for count, lines in enumerate(_worked(jobs, grid, request), start=1):
            computed += len(lines)
            known.update({line.key: line for line in lines})
            if kept:
                kept.add(lines)
            if request.done is not None:
                request.done(count, len(jobs))
    lines = [line for line in known.values() if (line.dialogue, line.question) in wanted]
    return _report(request, grid.cells, dialogues, lines, computed, time.monotonic() - started)


def chosen(dialogues: Sequence[Dialogue], limit: int | None) -> frozenset[Unit]:
    """Every question, or ``limit`` of them, evenly spaced: a set sorted by type keeps its types."""
    units = [(one.recording.id, item.name) for one in dialogues for item in one.asked]
    if limit is None or limit >= len(units):
        return frozenset(units)
    return frozenset(units[at * len(units) // limit] for at in range(limit))


def _read(request: MemoryRequest) -> Sequence[Dialogue]:
    if not request.data.exists():
        raise UsageFault(f"--data {request.data}: no such file or folder", hint="name the folder or file with the set")
    dialogues = list(read_all(request.data))
    found = {one.recording.family for one in dialogues}
    if found - {request.set}:
        other = next(iter(found - {request.set}))
        raise UsageFault(f"--data {request.data}: this is {other}", hint=f"longstride memory-eval {other} reads it")
    twice = [name for name, count in Counter(one.recording.id for one in dialogues).items() if count > 1]
    if twice:
        raise UsageFault(
            f"--data {request.data}: the id {twice[0]} stands twice", hint="results are kept by it: give each its own"
        )
    if not any(one.asked for one in dialogues):
        raise UsageFault(f"--data {request.data}: no questions in it")
    return dialogues


def _header(request: MemoryRequest, grid: Grid) -> Header:
    digest = hashlib.sha256()
    for path in data_files(request.data):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    reader, judge = (model.id if model else "" for model in (request.reader, request.judge))
    return Header(digest.hexdigest(), grid.encoder.model_dump_json(exclude_defaults=True), reader, judge, request.seed)


def _job(
    given: Dialogue, cells: Sequence[Cell], wanted: Container[Unit], known: Container[Key], request: MemoryRequest
) -> MemoryJob | None:
    """What of a dialogue is wanted and not known yet; None when nothing is. The dialogue stays whole: its fillers are
    those of all its questions."""
    names = [item.name for item in given.asked if (given.recording.id, item.name) in wanted]
    todo = []
    for cell in cells:
        rest = (cell.selector, cell.digest, cell.budget.label, cell.redundancy)
        missing = frozenset(name for name in names if (given.recording.id, name, *rest) not in known)
        if missing:
            todo.append((cell, missing))
    kept = request.cache / "readers" if request.cache is not None else None
    return MemoryJob(given, tuple(todo), request.seed, request.reader, request.judge, kept) if todo else None


def _worked(jobs: Sequence[MemoryJob], grid: Grid, request: MemoryRequest) -> Iterable[list[Line]]:
    settings = Settings(grid.encoder, request.cache, api_key=request.api_key)
    configs = [model.config for model in (request.reader, request.judge) if model is not None]
    # a local model has the machine to itself, and limits are counted in one process
    alone = any(config.kind == "local" or config.rpm or config.tpm or config.concurrency for config in configs)
    return results(jobs, settings, 1 if alone else request.workers) if jobs else []


def _report(
    request: MemoryRequest,
    cells: Sequence[Cell],
    dialogues: Sequence[Dialogue],
    lines: Sequence[Line],
    computed: int,
    seconds: float,
) -> MemoryReport:
    lost = [
        f"{one.recording.id}/{item.name}: evidence {reference!r} names no turn"
        for one in dialogues
        for item in one.asked
        for reference in item.unresolved
    ]
    bare = sum(item.answerable and not item.evidence for one in dialogues for item in one.asked)
    notes = [*lost, *([f"{bare} answerable questions have no evidence: they have no recall"] if bare else [])]
    return MemoryReport(
        rows=tuple(rows_of(request.set, lines, cells, request.seed)),
        differences=tuple(differences_of(lines, cells, request.seed)),
        encoder=lines[0].encoder,
        cosine_spread=sum(line.spread for line in lines) / len(lines),
        reader=request.reader.id if request.reader else "",
        judge=request.judge.id if request.judge else "",
        questions=len({(line.dialogue, line.question) for line in lines}),
        unresolved=len(lost),
        computed=computed,
        seconds=seconds,
        seed=request.seed,
        notes=tuple(notes),
    )
