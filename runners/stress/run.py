"""The grid: every cell one after another; what is finished stays, what was cut short goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runners.bench.datasets import registry
from runners.bench.secrecy import expect_no_leak, private_environment, private_folder
from runners.environment import Environment
from runners.stress.cell import SESSION, CellEnd, Job, Now, Told, material, run_cell
from runners.stress.plan import StressPlan, settle


@dataclass(frozen=True, slots=True)
class Ran:
    """Every cell's latest end, by label; None for one that was not reached."""

    ends: dict[str, CellEnd | None]

    @property
    def done(self) -> bool:
        return all(end is not None and end.final for end in self.ends.values())


async def run_stress(
    plan: StressPlan,
    out: Path,
    environment: Environment,
    *,
    told: Told,
    max_seconds: float | None = None,
    ended: Callable[[str, CellEnd], None] = lambda _label, _end: None,
) -> Ran:
    """Run the plan in ``out``; sessions of a private set stay in memory. Raises UsageFault and as `run_cell`."""
    which = registry.benchmark(plan.work.benchmark)
    dataset = registry.load(which, Path(plan.work.data), plan.work.options)
    given = material(plan.work, which, dataset)
    settle(plan, out)
    place = private_folder(out) if which.private else out
    environment = private_environment(environment, place) if which.private else environment
    until = None if max_seconds is None else time.monotonic() + max_seconds
    ends: dict[str, CellEnd | None] = {cell.label: None for cell in plan.cells}
    for cell in plan.cells:
        if until is not None and time.monotonic() >= until:
            break
        session = place / cell.label / SESSION
        end = await run_cell(Job(plan, cell, out / cell.label, session, given, environment, told, until))
        ends[cell.label] = end
        ended(cell.label, end)
    if which.private:
        expect_no_leak([out], dataset.tasks)
    return Ran(ends)


@contextmanager
def watch(*, quiet: bool) -> Iterator[tuple[Told, Callable[[str, CellEnd], None]]]:
    """What is told of a run, shown on stderr: redrawn on a terminal, a line at every so many steps elsewhere."""
    if quiet:
        yield (lambda _now: None), (lambda _label, _end: None)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    started: dict[str, tuple[float, int]] = {}
    said: dict[str, int] = {}

    def text(now: Now) -> str:
        since, first = started.setdefault(now.label, (time.monotonic(), now.steps))
        speed = (now.steps - first) / max(1e-9, time.monotonic() - since)
        return line(now, speed)

    def say(label: str, end: CellEnd) -> None:
        console.print(last(label, end), soft_wrap=True, highlight=False, markup=False)

    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:
            yield (
                (lambda now: live.update(Text(text(now)))),
                (lambda label, end: console.print(last(label, end), highlight=False)),
            )
        return

    def tell(now: Now) -> None:
        tenth = 20 * now.steps // max(1, now.of)
        shown = text(now)
        if said.get(now.label) != tenth:
            said[now.label] = tenth
            console.print(shown, soft_wrap=True, highlight=False)

    yield tell, say


def line(now: Now, speed: float) -> str:
    """``mosaic-32000  12,000/100,000  31,800/32,000 tokens  pressure 1.00  38 steps/s  recall 80/100``."""
    parts = [
        now.label,
        f"{now.steps:,}/{now.of:,}",
        "" if now.tokens != now.tokens else f"{now.tokens:,.0f}/{now.budget:,} tokens  pressure {now.pressure:.2f}",
        f"{speed:.1f} steps/s",
        f"recall {now.shown[0]}/{now.shown[1]}" if now.shown[1] else "",
        f"right {now.right[0]}/{now.right[1]}" if now.right[1] else "",
        f"{now.pending} summaries pending" if now.pending else "",
    ]
    return "  ".join(part for part in parts if part)


def last(label: str, end: CellEnd) -> str:
    """How a cell stopped, on one line."""
    return f"{label}: {end.status} at step {end.steps:,}" + ("" if end.final else f" ({end.message})")
