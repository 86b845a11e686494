"""A run as it goes, on a terminal: how far, scores, cost, trials, workers; and its end as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from memory.records import JsonValue
from runners.bench.harness import Job, Ran
from runners.bench.standing import Progress


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
    """``pace 0.412  react 0.380  $1.20  2 without result  4 under way  4 workers, 1 lost``."""
    scores = [f"{label} {'…' if score is None else f'{score:.3f}'}" for label, score in now.scores.items()]
    cost = [] if now.cost is None else [f"${now.cost:.2f}"]
    lost = [f"{now.without_result} without result"] if now.without_result else []
    busy = [f"{now.under_way} under way"] if now.under_way else []
    gone = f", {now.lost} lost" if now.lost else ""
    workers = [f"{now.workers} workers{gone}"] if now.workers or now.lost else []
    return "  ".join([*scores, *cost, *lost, *busy, *workers])


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
        "workers_lost": now.lost,
        "stopped": ran.stopped,
    }
