"""Reports of commands as JSON; their fields are documented in ``docs/json.md``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.errors import Status
from memory.records import JsonValue, Usage
from runners.errors import UsageFault


@dataclass(frozen=True, slots=True)
class CitationReport:
    """A citation of an answer. ``found`` is False when it names a chunk that does not exist."""

    chunk: str
    url: str
    title: str
    quote: str
    found: bool = True


@dataclass(frozen=True, slots=True)
class RunReport:
    """What ``run`` and ``resume`` report."""

    session: str
    status: Status
    question: str
    answer: str
    message: str
    """Why the run ended, unless ``completed``."""
    citations: tuple[CitationReport, ...]
    steps: int
    tokens: Usage
    """Sums over all calls, summaries included; null where no call reported the figure."""
    cost: float | None
    """US dollars; null when unknown."""
    backbone: str
    policy: str
    config_hash: str
    seconds: float
    python: str = ""
    """How code was isolated: ``level 3 by bubblewrap``, ``not offered``, ``UNSAFE: level 0, no isolation``, …"""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of ``show``. Lists by level run placeholder, brief, detailed, full."""

    step: int
    kind: str
    tools: tuple[str, ...]
    summary: str
    """The step's placeholder line."""
    policy: str
    budget: int | None
    tokens: int | None
    """Of the rendered request; null for a step without a model call."""
    pressure: float | None
    thresholds: tuple[float, float, float] | None
    planned: tuple[int, ...]
    """Old chunks per level as the policy planned them."""
    shown: tuple[int, ...]
    """Old chunks per level as they were sent."""
    shown_tokens: tuple[int, ...]
    fixed_tokens: int | None
    recent_tokens: int | None
    render_hash: str


@dataclass(frozen=True, slots=True)
class ShowReport:
    """What ``show`` reports."""

    session: str
    status: str
    questions: tuple[str, ...]
    steps: tuple[StepReport, ...]


def to_json(report: RunReport | ShowReport) -> dict[str, JsonValue]:
    """A report as plain JSON values."""
    return asdict(report)


def check_json(target: str | None) -> None:
    """Before a run that costs time and money: raises UsageFault when its report could not be written."""
    if target and target != "-" and not os.access(Path(target).absolute().parent, os.W_OK):
        raise UsageFault(f"--json {target}: cannot be written: no such folder, or not writable")


def write_json(value: Mapping[str, JsonValue], target: str) -> None:
    """Write to a file, whole or not at all; ``-`` is stdout. Raises UsageFault when the file cannot be written."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    write_whole(Path(target), text, "--json")


def write_whole(path: Path, text: str, option: str) -> None:
    """Write a file whole or not at all. Raises UsageFault, which names ``option``, when it cannot be written."""
    try:
        _replace(path, text)
    except OSError as fault:
        raise UsageFault(f"{option} {path}: cannot be written: {fault.strerror}") from fault


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
