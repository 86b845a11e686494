"""A run as it goes, on a terminal: how far, scores, cost, trials without a result; and its end as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from memory.records import JsonValue
from runners.bench.harness import Job, Progress, Ran


@contextmanager
def watch(job: Job, *, quiet: bool) -> Iterator[Job]:
    """The job, its progress shown on stderr while it runs."""
    if quiet:
        yield job
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=None)

        def told(now: Progress) -> None:
            bar.update(shown, total=now.planned, completed=now.done, description=line(now))

        yield replace(job, told=told)


def line(now: Progress) -> str:
    """``pace .412  react .380  $1.20  2 without result``."""
    scores = [f"{label} {'…' if score is None else f'{score:.3f}'}" for label, score in now.scores.items()]
    cost = [] if now.cost is None else [f"${now.cost:.2f}"]
    lost = [f"{now.without_result} without result"] if now.without_result else []
    return "  ".join([*scores, *cost, *lost])


def as_json(ran: Ran) -> dict[str, JsonValue]:
    """What `bench run --json` writes."""
    now = ran.progress
    scores: dict[str, JsonValue] = dict(now.scores)
    return {
        "done": now.done,
        "planned": now.planned,
        "without_result": now.without_result,
        "scores": scores,
        "cost": now.cost,
        "stopped": ran.stopped,
    }
