"""Figures of every step: a row a step, appended as the session goes; a file of columns when it stops.

The rows are CSV: a line is whole or it is not there, so that a kill costs at most the line being written, and anything
reads it. What is analysed is ``steps.npz``, one array a column, made from the rows whenever a cell stops: numpy reads
and writes it, and numpy is there anyway (Arrow and Parquet would need 40 MB more for the same columns, and neither can
be appended to without a footer that a kill loses).
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

import numpy as np

from agent.events import AnyEvent, ContextSummary, ModelReplied, StepCommitted, StepStarted, ToolFinished, ToolStarted
from memory.plan import FloatArray
from memory.ports import ChunkStore
from memory.records import Usage
from memory.stored import PlanRecord
from runners.errors import UsageFault

NONE = float("nan")


@dataclass(slots=True)
class StepRow:
    """One step. Tokens as counted here; ``input``, ``cached`` and ``output`` as the provider says; seconds; NaN where
    there was none, as the context's figures of a step that had no context built for it."""

    step: float
    task: float = NONE
    tokens: float = NONE
    budget: float = NONE
    unfitted: float = NONE
    pressure: float = NONE
    fixed: float = NONE
    recent: float = NONE
    placeholder: float = NONE
    brief: float = NONE
    detailed: float = NONE
    full: float = NONE
    prefix: float = NONE
    input: float = NONE
    cached: float = NONE
    output: float = NONE
    assembly_s: float = NONE
    model_s: float = NONE
    tools_s: float = NONE
    store_s: float = NONE
    rss_mb: float = NONE

    def see(self, context: ContextSummary) -> None:
        """Take a context's figures."""
        self.tokens, self.budget, self.unfitted = context.tokens, context.budget, context.unfitted_tokens
        self.pressure, self.fixed, self.recent = context.pressure, context.fixed_tokens, context.recent_tokens
        self.placeholder, self.brief, self.detailed, self.full = context.tokens_by_level
        self.prefix = _known(context.prefix_tokens)

    def read(self, record: PlanRecord) -> None:
        """Take the figures of a context whose own row was lost, as the session has them on record."""
        self.tokens, self.budget, self.unfitted = record.tokens, record.budget, record.unfitted_tokens
        self.pressure, self.fixed, self.recent = record.pressure, record.fixed_tokens, record.recent_tokens
        self.placeholder, self.brief, self.detailed, self.full = record.shown_tokens
        self.prefix = _known(record.prefix_tokens)

    def paid(self, usage: Usage) -> None:
        """Take a call's usage."""
        self.input, self.cached = _known(usage.input_total), _known(usage.cache_read)
        self.output = _known(usage.output)


COLUMNS: tuple[str, ...] = tuple(column.name for column in fields(StepRow))


class StepFile:
    """The rows of a cell. Half a line that a kill left is cut off when the file is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("a+b", buffering=0)
        self._file.seek(0)
        data = self._file.read()
        os.ftruncate(self._file.fileno(), data.rfind(b"\n") + 1)
        if not data.startswith(b"step,"):
            self._file.write((",".join(COLUMNS) + "\n").encode())
        last = data[: data.rfind(b"\n") + 1].splitlines()[-1:]
        self.last = int(last[0].split(b",")[0]) if last and last[0][:1].isdigit() else 0
        """The step of the last row."""

    async def catch_up(self, store: ChunkStore, steps: int) -> None:
        """Rows of steps that a kill left without one: committed, and without times."""
        for number in range(self.last + 1, steps + 1):
            row = StepRow(number)
            for record in await store.plans(number, number):
                row.read(record)
            self.append(row)

    def append(self, row: StepRow) -> None:
        """Handed to the system at once, so that a kill of this process loses nothing; not forced to the disk, since the
        session's own commit just was."""
        values = (getattr(row, name) for name in COLUMNS)
        self._file.write(
            (",".join("" if v != v else f"{v:.6g}" if v % 1 else f"{v:.0f}" for v in values) + "\n").encode()
        )

    def close(self) -> None:
        """Close the rows, and write the columns beside them."""
        self._file.close()
        columns = read_rows(self._path)
        part = self._path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **columns)
        part.replace(self._path.with_suffix(".npz"))


def read_rows(path: Path) -> Mapping[str, FloatArray]:
    """Columns of the rows at ``path``, (steps,) each; of two rows of one step the last counts. Raises UsageFault."""
    try:
        lines = path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"{path}: cannot be read: {fault}") from fault
    if not lines or lines[0].split(",") != list(COLUMNS):
        raise UsageFault(f"{path}: not the steps of a stress run of this version")
    rows: dict[int, list[float]] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            values = [float(value) if value else NONE for value in line.split(",")]
            rows[int(values[0])] = values
            if len(values) != len(COLUMNS):
                raise ValueError(f"{len(values)} values")
        except ValueError as fault:
            raise UsageFault(f"{path}:{number}: damaged: {fault}", hint="remove that line") from fault
    table = np.array([rows[step] for step in sorted(rows)], dtype=np.float64).reshape(len(rows), len(COLUMNS))
    return {name: table[:, at] for at, name in enumerate(COLUMNS)}


@dataclass(slots=True)
class Recorder:
    """A listener that times the parts of every step, and writes its row when it is committed."""

    file: StepFile
    row: StepRow = field(default_factory=lambda: StepRow(0))
    _since: float = field(default_factory=time.perf_counter)
    _tools: float = 0.0
    _replied: float = 0.0

    def start(self) -> None:
        """The time from here on belongs to the next step."""
        self._since = time.perf_counter()
        self._tools = 0.0

    def on_event(self, event: AnyEvent) -> None:
        now = time.perf_counter()
        match event:
            case StepStarted():
                self.row = StepRow(event.step, assembly_s=now - self._since)
                self.row.see(event.context)
                self._tools = 0.0
            case ModelReplied():
                self.row.paid(event.usage)
                self.row.model_s, self._replied = event.seconds, now
            case ToolStarted():
                self._since = now
            case ToolFinished():
                self._tools += now - self._since
                self._since = now
            case StepCommitted():
                self.row.tools_s = self._tools
                self.row.store_s = max(0.0, now - self._replied - self._tools)
                self.committed(event.step.task)
            case _:
                pass

    def committed(self, task: int) -> None:
        """The step is on the disk: write its row."""
        self.row.task, self.row.rss_mb = task, resident_mb()
        self.file.append(self.row)
        self.start()


def resident_mb() -> float:
    """Memory of this process that is resident, in MB (of 10^6 bytes); the most it ever was where /proc is missing."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _known(value: int | None) -> float:
    return NONE if value is None else value
