"""``longstride stress`` and ``longstride report stress``: sessions as long as anyone wants, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from runners.cli.exits import DONE, FAILED
from runners.cli.options import Backbone, ConfigFile, JsonFile, LogLevel, Overrides, Profile, Quiet

if TYPE_CHECKING:
    from runners.stress.plan import StressRequest

REPLY_S = 2.0
_COMPARED = "What is compared"
_WORK = "What a session does"
_PROBED = "What it is asked about later"

Data = Annotated[Path, typer.Argument(metavar="DATA", help="The benchmark's file or folder.", show_default=False)]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Where sessions and figures go; an existing run goes on.")
]
BenchOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-o", metavar="KEY=VALUE", help="Option of the benchmark, as in `-o level=2,3`.", rich_help_panel=_WORK
    ),
]
CorpusOption = Annotated[
    str | None,
    typer.Option("--corpus", metavar="PATH|pydoc:", help="Search this instead of the web.", rich_help_panel=_WORK),
]
BenchName = Annotated[str, typer.Option("--benchmark", metavar="NAME", help="What DATA is.", rich_help_panel=_WORK)]
Kind = Annotated[
    Literal["ask", "visits"],
    typer.Option(
        "--workload",
        help="`ask`: the backbone works on question after question in one session. `visits`: a script reads page after "
        "page, no model is asked.",
        rich_help_panel=_WORK,
    ),
]
Policies = Annotated[
    str, typer.Option("--policy", metavar="A,B", help="Context policies, a session each.", rich_help_panel=_COMPARED)
]
Budgets = Annotated[str, typer.Option("--budget", metavar="N,M", help="Tokens.", rich_help_panel=_COMPARED)]
Lambdas = Annotated[
    str, typer.Option("--lambda", metavar="X,Y", help="For policies that have it.", rich_help_panel=_COMPARED)
]
OverflowOption = Annotated[
    Literal["auto", "stop", "fit"],
    typer.Option(
        "--overflow",
        help="When a plan exceeds the budget: end, or cut it. `auto`: react, summary-*, fold-* and pace end, as "
        "published.",
        rich_help_panel=_COMPARED,
    ),
]
StepsOption = Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Most steps.", rich_help_panel=_WORK)]
QuestionSteps = Annotated[
    int, typer.Option("--question-steps", min=1, metavar="N", help="Most steps a question.", rich_help_panel=_WORK)
]
Every = Annotated[
    int,
    typer.Option("--every", min=1, metavar="N", help="Build a context at every N-th visit.", rich_help_panel=_WORK),
]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, metavar="S", help="Pause after.", rich_help_panel=_WORK)
]
Seed = Annotated[int, typer.Option("--seed", help="Of the order of the questions.", rich_help_panel=_WORK)]
ProbeEvery = Annotated[
    int, typer.Option("--probe-every", min=0, metavar="K", help="Steps between (0: never).", rich_help_panel=_PROBED)
]
Distances = Annotated[
    str, typer.Option("--distance", metavar="D,E", help="Steps since it was seen.", rich_help_panel=_PROBED)
]
Also = Annotated[
    str,
    typer.Option("--also", metavar="A,B", help="Policies shown the same session at each.", rich_help_panel=_PROBED),
]
NoRead = Annotated[bool, typer.Option("--no-read", help="Do not have the backbone answer.", rich_help_panel=_PROBED)]


def stress(
    data: Data,
    out: OutFolder,
    policy: Policies = "mosaic",
    budget: Budgets = "32000",
    lam: Lambdas = "",
    overflow: OverflowOption = "auto",
    workload: Kind = "ask",
    benchmark: BenchName = "multihop",
    options: BenchOptions = None,
    corpus: CorpusOption = None,
    steps: StepsOption = 3_000,
    question_steps: QuestionSteps = 24,
    every: Every = 1,
    probe_every: ProbeEvery = 100,
    distance: Distances = "10,100,1000,10000",
    also: Also = "",
    no_read: NoRead = False,
    backbone: Backbone = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    max_seconds: MaxSeconds = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
    quiet: Quiet = False,
) -> None:
    """Sessions that never end by themselves: how long each policy lasts, and what it can still recall. The questions
    of a benchmark are asked one after another in one session, its memory never cleared. Killed at any time, the same
    command goes on."""
    from runners.bench.datasets import registry
    from runners.bench.planning import options_of
    from runners.stress.plan import StressRequest, Work

    chosen = options_of(options or ())
    dataset = registry.load(registry.benchmark(benchmark), data, chosen).hash
    distances = _numbers("--distance", distance)
    work = Work(workload, benchmark, str(data.resolve()), steps, question_steps, every, probe_every, distances,
                _names(also), not no_read, seed, dataset, chosen, corpus)  # fmt: skip
    budgets, lambdas = _numbers("--budget", budget), _floats("--lambda", lam)
    request = StressRequest(work, _names(policy), budgets, lambdas, overflow, backbone, profile, config,
                            tuple(overrides or ()))  # fmt: skip
    _run(request, out, max_seconds, json_file, log_level, quiet)


def _run(
    request: StressRequest,
    out: Path,
    max_seconds: float | None,
    json_file: str | None,
    log_level: LogLevel,
    quiet: bool,
) -> None:
    import asyncio

    from runners.cli.bench_results import environment_of
    from runners.report import check_json, write_json
    from runners.stress.plan import make_plan
    from runners.stress.run import run_stress, watch
    from runners.stress.tables import as_json, tabulate

    check_json(json_file)
    environment, plan = environment_of(log_level), make_plan(request)
    with watch(quiet=quiet) as (told, ended):
        ran = asyncio.run(run_stress(plan, out, environment, told=told, max_seconds=max_seconds, ended=ended))
    if json_file:
        write_json(as_json(tabulate(out, REPLY_S)), json_file)
    if json_file != "-":
        typer.echo(f"report: longstride report stress {out}")
    raise typer.Exit(DONE if ran.done else FAILED)


def report_stress(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a stress run.", show_default=False)],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Where the report goes (default: DIR/report).")
    ] = None,
    reply_seconds: Annotated[
        float, typer.Option("--reply-seconds", min=0, metavar="S", help="A model's reply, in the latency table.")
    ] = REPLY_S,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Tables only (no matplotlib).")] = False,
    json_file: JsonFile = None,
) -> None:
    """Longevity, recall by distance, latency, context growth, memory and the lambda curve of a stress run: CSV, one
    HTML page, and figures as PNG and SVG."""
    from runners.report import check_json, write_json
    from runners.stress.report import write_report
    from runners.stress.tables import as_json, tabulate, text

    check_json(json_file)
    made = tabulate(out, reply_seconds)
    written = write_report(made, to or out / "report", figures=not no_figures)
    if json_file:
        write_json(as_json(made), json_file)
    if json_file != "-":
        typer.echo(text(made))
        for path in written:
            typer.echo(path)


REPORT: Mapping[str, Callable[..., Any]] = {"stress": report_stress}


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _numbers(option: str, text: str) -> tuple[int, ...]:
    return tuple(int(value) for value in _floats(option, text))


def _floats(option: str, text: str) -> tuple[float, ...]:
    from runners.errors import UsageFault

    try:
        return tuple(float(part) for part in _names(text))
    except ValueError as fault:
        raise UsageFault(f"{option} {text}: must be numbers with commas between them") from fault
