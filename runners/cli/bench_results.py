"""``longstride bench score|report|compare|submit|export``: what is done with the results of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runners.cli.exits import FAILED
from runners.cli.options import JsonFile, LogLevel, spread

if TYPE_CHECKING:
    from runners.bench.report import BenchReport
    from runners.bench.results import Recorded
    from runners.bench.tally import Tally
    from runners.bench.tasks import Benchmark, Dataset
    from runners.bench.trajectories import Trails
    from runners.environment import Environment

RunFolder = Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `bench run --out` named.")]
RunFolders = Annotated[list[Path], typer.Argument(metavar="OUT…", help="Folders of runs on the same data.")]
MovedData = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Where the data is now (default: where it was).")
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge", metavar="NAME|YAML", help="A backbone that grades; without it the official rule alone."),
]
JudgeName = Annotated[
    str, typer.Option("--judge", metavar="MODEL", help="Whose grades count (default: the last judge's).")
]
Again = Annotated[
    Literal["ungraded", "all"], typer.Option("--again", help="What has been graded before is graded anew: all of it?")
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, metavar="N", help="Judgements at once.")]
Baseline = Annotated[str, typer.Option("--baseline", metavar="POLICY", help="What the others are compared with.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the bootstrap.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the report as Markdown.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write it as one HTML page.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="DIR", help="Write its rows as CSV files.")]
Figures = Annotated[Path | None, typer.Option("--figures", metavar="DIR", help="Draw figures (PNG and SVG).")]
Policy = Annotated[str, typer.Option("--policy", metavar="NAME", help="Whose answers.")]
ToFile = Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write.")]
ToFolder = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to write to.")]
FormatName = Annotated[
    Literal["alibaba", "openai", "atif", "inspect"], typer.Option("--format", help="Form of the trajectories.")
]
Sessions = Annotated[
    str | None,
    typer.Option("--sessions", metavar="DIR|ADDRESS", help="Where the run was told to keep its sessions."),
]


def score(
    out: RunFolder,
    data: MovedData = None,
    judge: JudgeModel = None,
    again: Again = "ungraded",
    concurrency: Concurrency = 8,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
) -> None:
    """Score a run by the official rule and, with --judge, by a model. What the judge could not grade stays ungraded,
    counts as wrong, and is asked again by the same command; the exit code is 1 while there is any."""
    import asyncio

    from agent.backbones.factory import make_backbone
    from runners.bench.grading import Graded, GradeJob, grade
    from runners.config import load_config
    from runners.report import check_json, write_json
    from runners.request import ConfigRequest
    from runners.scoring.judge import Judge

    environment = environment_of(log_level)
    check_json(json_file)
    _, which, dataset = _run_of(out, data)

    async def work() -> Graded:
        if judge is None:
            return await grade(GradeJob(out, which, dataset))
        config = load_config(ConfigRequest(backbone=judge)).backbone
        backbone = make_backbone(config, environment.variables())
        try:
            return await grade(GradeJob(out, which, dataset, Judge(backbone), backbone.model, again, concurrency))
        finally:
            await backbone.aclose()

    graded = asyncio.run(work())
    if json_file:
        write_json(
            {
                "trials": graded.trials,
                "official": graded.official,
                "grades": dict(graded.grades),
                "asked": graded.asked,
                "reasons": dict(graded.reasons),
                "failed": graded.failed,
            },
            json_file,
        )
    if json_file != "-":
        grades = ", ".join(f"{count} {name}" for name, count in sorted(graded.grades.items()))
        judged = f"; judge: {grades}" if grades else ""
        typer.echo(f"{graded.official} of {graded.trials} trials scored by the rule{judged}")
        for reason, count in graded.reasons.most_common(3):
            typer.echo(f"ungraded, {count}: {reason}")
    if graded.failed:
        typer.echo(
            f"longstride: {graded.failed} of {graded.trials} trials could not be graded; the same command asks again",
            err=True,
        )
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class Tables:
    """The options of `report` and `compare` alike."""

    baseline: Baseline = ""
    judge: JudgeName = ""
    seed: Seed = 0
    json_file: JsonFile = None
    markdown: Markdown = None
    html: Html = None
    csv: Csv = None
    figures: Figures = None


@spread
def report(out: RunFolder, tables: Tables, data: MovedData = None) -> None:
    """Tables of a run: scores with intervals, paired differences, rows by type, rollouts, what it took."""
    from runners.bench.report import report as made
    from runners.bench.tally import tally

    _, which, dataset = _run_of(out, data)
    _deliver(made(tally(out, which, dataset, tables.judge), tables.baseline, tables.seed), tables)


@spread
def compare(outs: RunFolders, tables: Tables) -> None:
    """Several runs on the same data (two backbones, say) in one report, paired by question; policies are named
    FOLDER/POLICY, with as much of the folder as tells them apart."""
    from runners.bench.report import report as made
    from runners.bench.tally import joined, names_of, tally

    tallies: list[Tally] = []
    for out, name in zip(outs, names_of(outs), strict=True):
        _, which, dataset = _run_of(out, None)
        tallies.append(tally(out, which, dataset, tables.judge, f"{name}/"))
    _deliver(made(joined(tallies), tables.baseline, tables.seed), tables)


def submit(out: RunFolder, policy: Policy, to: ToFile, data: MovedData = None, sessions: Sessions = None) -> None:
    """Write the answers of one policy as a leaderboard or an official scorer takes them."""
    from runners.bench.submit import submit as written
    from runners.bench.tally import tally

    environment = environment_of("warning", sessions)
    recorded, which, dataset = _run_of(out, data)
    _expect_outside(out, to)
    made = tally(out, which, dataset)
    count = written(made, _trails(out, recorded, environment, sessions), policy, to)
    lost = sum(each.planned - sum(row.finished for row in each.rows) for each in made.trials if each.label == policy)
    typer.echo(
        f"{count} answers: {to}"
        + (f"; {lost} of its trials have no result: they are empty, or left out" if lost else "")
    )


def export(
    out: RunFolder,
    to: ToFolder,
    form: FormatName = "alibaba",
    data: MovedData = None,
    sessions: Sessions = None,
) -> None:
    """Write the trajectories for other tools: Alibaba's jsonl, OpenAI messages, ATIF, or logs that `inspect view`
    opens. Those of private sets are sealed."""
    from runners.bench.exports import ExportJob
    from runners.bench.exports import export as written
    from runners.bench.tally import tally
    from runners.redact import Redactor

    environment = environment_of("warning", sessions)
    recorded, which, dataset = _run_of(out, data)
    _expect_outside(out, to)
    redact = Redactor(environment.secrets.values())
    trails = _trails(out, recorded, environment, sessions)
    files = written(ExportJob(to, tally(out, which, dataset), recorded.plan, redact, trails), form)
    for path in files:
        typer.echo(str(path))


def _deliver(made: BenchReport, wanted: Tables) -> None:
    from runners.bench import render
    from runners.bench.figures import draw
    from runners.bench.report import to_json
    from runners.report import write_json

    drawn = draw(made, wanted.figures) if wanted.figures is not None else []
    if wanted.json_file:
        write_json(to_json(made), wanted.json_file)
    if wanted.markdown is not None:
        render.write(wanted.markdown, render.markdown(made), "--markdown")
    if wanted.html is not None:
        render.write(wanted.html, render.page(made, drawn), "--html")
    if wanted.csv is not None:
        for name, text in render.tables_of(made).items():
            render.write(wanted.csv / name, text, "--csv")
    if wanted.json_file != "-":
        render.show(made)


def _run_of(out: Path, data: Path | None) -> tuple[Recorded, Benchmark, Dataset]:
    from runners.bench.planning import reload
    from runners.bench.results import read_results, result_files

    recorded = read_results(result_files(out))
    return recorded, *reload(recorded.plan, data)


def _trails(out: Path, recorded: Recorded, environment: Environment, sessions: str | None) -> Trails:
    from runners.bench.places import sessions_at
    from runners.bench.trajectories import Trails

    return Trails(out, environment, sessions_at(environment, sessions), recorded.kept)


def _expect_outside(out: Path, to: Path) -> None:
    from runners.errors import UsageFault

    if to.resolve().is_relative_to(out.resolve()):
        raise UsageFault(f"--to {to} is inside the run", hint="name a place outside of it")


def environment_of(log_level: LogLevel, sessions: str | None = None) -> Environment:
    """The environment, its secrets forgotten elsewhere; logging set up. ``sessions``: as the option says it."""
    from memory.store.address import Address
    from runners.bench.places import sessions_at
    from runners.environment import forget_secrets, read_environment
    from runners.logs import setup_logging
    from runners.stores import in_database, knowing

    environment = read_environment()
    named = sessions_at(environment, sessions)
    if isinstance(named, Address):
        environment = knowing(environment, in_database(environment.home, named))
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    return environment
