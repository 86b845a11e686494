"""The evaluation that a command line asks for, from its data to its report."""

from __future__ import annotations

import asyncio
import hashlib
import time
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
from runners.replay.dialogues import Dialogue, read_all
from runners.replay.working import Settings, results

SetName: TypeAlias = Literal["longmemeval", "locomo"]


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
    dialogues = limited(list(_read(request)), request.limit)
    wanted = {(one.recording.id, asked.name) for one in dialogues for asked in one.asked}
    with Results(request.rows, _header(request, grid)) if request.rows else nullcontext() as kept:
        # what failed is tried again
        known = {key: line for key, line in kept.known.items() if not line.failed} if kept else {}
        jobs = [job for one in dialogues if (job := _job(one, grid.cells, known, request)) is not None]
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


def limited(dialogues: Sequence[Dialogue], limit: int | None) -> list[Dialogue]:
    """``limit`` of all questions, evenly spaced: a set sorted by type keeps its types."""
    total = sum(len(one.asked) for one in dialogues)
    if limit is None or limit >= total:
        return list(dialogues)
    chosen = {at * total // limit for at in range(limit)}
    found, start = [], 0
    for one in dialogues:
        asked = tuple(item for at, item in enumerate(one.asked, start) if at in chosen)
        start += len(one.asked)
        if asked:
            found.append(Dialogue(one.recording, asked))
    return found


def _read(request: MemoryRequest) -> Sequence[Dialogue]:
    if not request.data.exists():
        raise UsageFault(f"--data {request.data}: no such file or folder", hint="name the folder or file with the set")
    dialogues = list(read_all(request.data))
    found = {one.recording.family for one in dialogues}
    if found - {request.set}:
        other = next(iter(found - {request.set}))
        raise UsageFault(f"--data {request.data}: this is {other}", hint=f"longstride memory-eval {other} reads it")
    if not any(one.asked for one in dialogues):
        raise UsageFault(f"--data {request.data}: no questions in it")
    return dialogues


def _header(request: MemoryRequest, grid: Grid) -> Header:
    digest = hashlib.sha256()
    files = sorted(request.data.iterdir()) if request.data.is_dir() else [request.data]
    for path in files:
        if path.is_file() and path != request.rows and path.name.endswith((".json", ".jsonl", ".gz")):
            digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    reader, judge = (model.id if model else "" for model in (request.reader, request.judge))
    return Header(digest.hexdigest(), grid.encoder.model_dump_json(exclude_defaults=True), reader, judge, request.seed)


def _job(
    given: Dialogue,
    cells: Sequence[Cell],
    known: Container[Key],
    request: MemoryRequest,
) -> MemoryJob | None:
    """What of a dialogue is not known yet; None when all is."""
    todo = []
    for cell in cells:
        rest = (cell.selector, cell.digest, cell.budget.label, cell.redundancy)
        names = frozenset(item.name for item in given.asked if (given.recording.id, item.name, *rest) not in known)
        if names:
            todo.append((cell, names))
    kept = request.cache / "readers" if request.cache is not None else None
    return MemoryJob(given, tuple(todo), request.seed, request.reader, request.judge, kept) if todo else None


def _worked(jobs: Sequence[MemoryJob], grid: Grid, request: MemoryRequest) -> Iterable[list[Line]]:
    settings = Settings(grid.encoder, request.cache, api_key=request.api_key)
    # a local model has the machine to itself
    local = any(model.config.kind == "local" for model in (request.reader, request.judge) if model is not None)
    return results(jobs, settings, 1 if local else request.workers) if jobs else []


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
        questions=sum(len(one.asked) for one in dialogues),
        unresolved=len(lost),
        computed=computed,
        seconds=seconds,
        seed=request.seed,
        notes=tuple(notes),
    )
