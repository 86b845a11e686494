"""``longstride bench``: run, resume, score, report, compare, submit and export benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from runners.cli.bench_results import MovedData, RunFolder, compare, environment_of, export, report, score, submit
from runners.cli.exits import DONE, FAILED
from runners.cli.options import Backbone, ConfigFile, JsonFile, LogLevel, Overrides, Profile, Quiet, spread

if TYPE_CHECKING:
    from runners.bench.executors import Executor
    from runners.bench.rows import RunPlan
    from runners.bench.tasks import Benchmark, Dataset
    from runners.environment import Environment

_WORK = "What is run"
_HOW = "How it is run"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="gaia, browsecomp, browsecomp-zh, xbench-deepsearch, widesearch, webwalkerqa or multihop.",
        show_default=False,
    ),
]
Data = Annotated[Path, typer.Option("--data", metavar="PATH", help="The benchmark's file or folder.")]
OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results go; an existing run goes on.")]
Policies = Annotated[
    str, typer.Option("--policy", metavar="A,B,…", help="Context policies to compare, the baseline first.")
]
BenchOptions = Annotated[
    list[str] | None,
    typer.Option("-o", metavar="KEY=VALUE", help="Option of the benchmark, as in `-o level=1`.", rich_help_panel=_WORK),
]
Ids = Annotated[str, typer.Option("--ids", metavar="A,B|FILE", help="These questions only.", rich_help_panel=_WORK)]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="N questions.", rich_help_panel=_WORK)]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Draw the questions by it (default: as filed).", rich_help_panel=_WORK),
]
Rollouts = Annotated[
    int, typer.Option("--rollouts", min=1, metavar="K", help="Times each question is run.", rich_help_panel=_WORK)
]
Shard = Annotated[
    str, typer.Option("--shard", metavar="I/N", help="The I-th of N parts of the work.", rich_help_panel=_WORK)
]
Corpus = Annotated[
    str | None,
    typer.Option("--corpus", metavar="PATH|pydoc:", help="Search this instead of the web.", rich_help_panel=_WORK),
]
ExecutorName = Annotated[
    Literal["local", "ray"], typer.Option("--executor", help="Who runs the trials.", rich_help_panel=_HOW)
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, metavar="N", help="Trials at once; Ray workers.", rich_help_panel=_HOW)
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address", metavar="HOST:PORT", help="A running cluster (default: one here).", rich_help_panel=_HOW
    ),
]
RayEnv = Annotated[
    Path | None,
    typer.Option(
        "--ray-env", metavar="FILE", help="YAML: the runtime environment of Ray's workers.", rich_help_panel=_HOW
    ),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, metavar="USD", help="Stop the whole run at.", rich_help_panel=_HOW)
]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, metavar="S", help="Stop the whole run at.", rich_help_panel=_HOW)
]
Sessions = Annotated[
    str | None,
    typer.Option(
        "--sessions",
        metavar="DIR|ADDRESS",
        help="Keep sessions there, or in a database: postgresql://user@host/database. Without it, those of private "
        "sets live in memory until their result is written.",
        rich_help_panel=_HOW,
    ),
]


@dataclass(frozen=True, slots=True)
class How:
    """The options of `run` and `resume` alike."""

    shard: Shard = "1/1"
    executor: ExecutorName = "local"
    concurrency: Concurrency = 4
    ray_address: RayAddress = None
    ray_env: RayEnv = None
    max_cost: MaxCost = None
    max_seconds: MaxSeconds = None
    sessions: Sessions = None
    json_file: JsonFile = None
    log_level: LogLevel = "warning"
    quiet: Quiet = False


@spread
def run(
    name: Name,
    data: Data,
    out: OutFolder,
    policy: Policies = "pace",
    backbone: Backbone = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    options: BenchOptions = None,
    ids: Ids = "",
    limit: Limit = None,
    seed: Seed = None,
    rollouts: Rollouts = 1,
    corpus: Corpus = None,
    *,
    how: How,
) -> None:
    """Run a benchmark under one policy or several. What is finished is never run again, what was cut short goes on
    from its last step; private sets are never written in plaintext."""
    from runners.bench.planning import RunRequest, options_of, plan_run, shard_of

    environment = environment_of(how.log_level, how.sessions)
    request = RunRequest(
        benchmark=name,
        data=data,
        policies=_names(policy),
        backbone=backbone,
        profile=profile,
        config=config,
        overrides=tuple(overrides or ()),
        options=options_of(options or ()),
        ids=_ids(ids),
        limit=limit,
        rollouts=rollouts,
        shard=shard_of(how.shard),
        seed=seed,
        corpus=corpus,
    )
    _work(out, how, environment, *plan_run(request))


@spread
def resume(out: RunFolder, how: How, data: MovedData = None) -> None:
    """Go on with a run as it was last planned."""
    from runners.bench.planning import reload, shard_of
    from runners.bench.results import read_results, result_name
    from runners.errors import UsageFault

    environment = environment_of(how.log_level, how.sessions)
    file = out / result_name(shard_of(how.shard))
    if not file.is_file():
        raise UsageFault(f"{out}: no run to go on with ({file.name})", hint="`bench run --out` begins one")
    plan = read_results([file]).plan
    _work(out, how, environment, plan, *reload(plan, data))


BENCH: Mapping[str, Callable[..., Any]] = {
    "run": run,
    "resume": resume,
    "score": score,
    "report": report,
    "compare": compare,
    "submit": submit,
    "export": export,
}


def _work(out: Path, how: How, environment: Environment, plan: RunPlan, which: Benchmark, dataset: Dataset) -> None:
    import asyncio

    from runners.bench.harness import Job
    from runners.bench.harness import run as run_job
    from runners.bench.places import sessions_at
    from runners.bench.progress import as_json, watch
    from runners.bench.standing import RunLimits
    from runners.report import check_json, write_json
    from runners.toolbox import Inputs, check_inputs

    check_json(how.json_file)
    check_inputs(Inputs(plan.corpus))
    sessions = sessions_at(environment, how.sessions)
    job = Job(out, plan, which, dataset, environment, RunLimits(how.max_cost, how.max_seconds), sessions)
    executor = _executor(how)
    try:
        with watch(job, quiet=how.quiet) as watched:
            ran = asyncio.run(run_job(watched, executor))
    except KeyboardInterrupt:
        named = f" --sessions {sessions}" if sessions else ""
        typer.echo(f"\ninterrupted; go on with: longstride bench resume {out}{named}", err=True)
        raise
    if how.json_file:
        write_json(as_json(ran), how.json_file)
    done, planned = ran.progress.done, ran.progress.planned
    if how.json_file != "-":
        typer.echo(f"{done} of {planned} trials have a result" + (f"; stopped: {ran.stopped}" if ran.stopped else ""))
        typer.echo(f"report: longstride bench report {out}")
    raise typer.Exit(DONE if done == planned else FAILED)


def _executor(how: How) -> Executor:
    if how.executor == "local":
        from runners.bench.executors import LocalExecutor

        return LocalExecutor(how.concurrency)
    from runners.bench.ray_executor import Cluster, RayExecutor, read_runtime_env

    wanted = read_runtime_env(how.ray_env) if how.ray_env else {}
    return RayExecutor(Cluster(how.concurrency, how.ray_address, wanted))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _ids(text: str) -> tuple[str, ...]:
    """Ids with commas, or a file of them."""
    from runners.errors import UsageFault

    try:
        is_file = bool(text) and Path(text).is_file()
    except OSError:  # too long for a name: it lists ids
        is_file = False
    try:
        return tuple(Path(text).read_text("utf-8").split()) if is_file else _names(text)
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"--ids {text}: cannot be read as a list of ids: {fault}") from fault
