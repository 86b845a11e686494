"""``longstride replay``: recorded runs under other policies, budgets and layouts, without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runners.cli.options import ConfigFile, JsonFile, Overrides, Profile

if TYPE_CHECKING:
    from agent.pricing import ModelPrice
    from runners.replay.command import ReplayRequest
    from runners.replay.report import ReplayReport
    from runners.replay.variants import VariantRequest

_COMPARED = "What is compared"
_MEASURED = "What is measured"
RunFiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE…",
        help="Normalised or Alibaba .jsonl(.gz), ATIF .json(l), our trajectory.jsonl or a session's folder.",
    ),
]
Policies = Annotated[
    str,
    typer.Option(
        "--policy", metavar="A,B", help="Context policies; the first is compared with.", rich_help_panel=_COMPARED
    ),
]
Budgets = Annotated[str, typer.Option("--budget", metavar="N,M", help="Tokens.", rich_help_panel=_COMPARED)]
Scoped = Annotated[
    Literal["history", "request"],
    typer.Option(
        "--scope",
        help="What a budget is for: the old steps (question and recent steps come on top), or the whole request.",
        rich_help_panel=_COMPARED,
    ),
]
Lambdas = Annotated[
    str, typer.Option("--lambda", metavar="X,Y", help="For policies that have one.", rich_help_panel=_COMPARED)
]
Layouts = Annotated[
    str, typer.Option("--layout", metavar="A,B", help="interleaved, ledger.", rich_help_panel=_COMPARED)
]
Planted = Annotated[
    bool,
    typer.Option(
        "--planted",
        help="FILE is a folder of multi-hop questions and pages: a long session of visits, whose facts are asked for "
        "again 10 to 10,000 steps later.",
        rich_help_panel=_MEASURED,
    ),
]
Visits = Annotated[
    int, typer.Option("--visits", min=20, metavar="N", help="Of a planted session.", rich_help_panel=_MEASURED)
]
Sessions = Annotated[
    int, typer.Option("--sessions", min=1, metavar="N", help="Planted sessions.", rich_help_panel=_MEASURED)
]
Evidence = Annotated[
    bool,
    typer.Option(
        "--evidence",
        help="FILE is LongMemEval or LoCoMo: are the labelled turns shown, and can the answer be read in them?",
        rich_help_panel=_MEASURED,
    ),
]
Generate = Annotated[
    int | None,
    typer.Option(
        "--generate",
        min=10,
        metavar="N",
        help="A session of N steps of real text (FILE: its pages; none: our own): how long each policy lasts. Without "
        "--policy: the runs of the papers' Figure 2, and mosaic at 32K.",
        rich_help_panel=_MEASURED,
    ),
]
Chained = Annotated[bool, typer.Option("--chain", help="All runs one after another, as one session.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N runs.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave runs out that cannot be read, and count them.")]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--figures", metavar="DIR", help="Write PNG and SVG figures (extra: plots).", rich_help_panel=_MEASURED
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Of the intervals, and of what is sampled.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, metavar="N", help="Processes (default: one a core).")]
Cached = Annotated[
    bool,
    typer.Option("--cached", help="Render every request: cacheable share and cost.", rich_help_panel=_MEASURED),
]
Timing = Annotated[bool, typer.Option("--timing", help="Report milliseconds per context.", rich_help_panel=_MEASURED)]
PriceFile = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE", help="Price table (YAML).", rich_help_panel=_MEASURED)
]
PriceOf = Annotated[
    str, typer.Option("--price-of", metavar="MODEL", help="A model of that table.", rich_help_panel=_MEASURED)
]


def replay(
    files: RunFiles = None,
    policy: Policies = "",
    budget: Budgets = "",
    scope: Scoped = "history",
    lambdas: Lambdas = "",
    layout: Layouts = "",
    planted: Planted = False,
    visits: Visits = 1_200,
    sessions: Sessions = 1,
    evidence: Evidence = False,
    generate: Generate = None,
    chained: Chained = False,
    limit: Limit = None,
    skip_broken: SkipBroken = False,
    cached: Cached = False,
    timing: Timing = False,
    prices: PriceFile = None,
    price_of: PriceOf = "gpt-5-mini",
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    figures: Figures = None,
    seed: Seed = 0,
    workers: Workers = None,
    json_file: JsonFile = None,
) -> None:
    """Replay recorded runs: what each policy would have shown before every step, and how much of what the next action
    used was in it. No model and no network are needed."""
    import os

    from runners.replay.command import ReplayRequest

    compared = Compared(policy, budget, scope, lambdas, layout, profile, config, tuple(overrides or ()))
    request = ReplayRequest(
        files=files or [],
        variants=variants_of(compared, generate, bool(files)),
        mode="generated" if generate else "planted" if planted else "evidence" if evidence else "steps",
        chained=chained,
        visits=visits,
        sessions=sessions,
        steps=generate or 0,
        limit=limit,
        skip_broken=skip_broken,
        seed=seed,
        workers=workers or os.cpu_count() or 1,
        rendering=cached or prices is not None,
        timing=timing,
        price=chosen_price(prices, price_of) if cached or prices else None,
    )
    carry_out(request, json_file, figures)


@dataclass(frozen=True)
class Compared:
    """The options that say what is compared, as typed."""

    policy: str
    budget: str
    scope: Literal["history", "request"]
    lambdas: str
    layout: str
    profile: str | None
    config: Path | None
    overrides: tuple[str, ...]


def variants_of(typed: Compared, generate: int | None, with_files: bool) -> list[VariantRequest]:
    """What is compared. Raises UsageFault."""
    from runners.errors import UsageFault
    from runners.replay.longevity import published
    from runners.replay.variants import VariantRequest

    budgets = integers("--budget", typed.budget)
    if generate and not typed.policy:
        return published(budgets or (128_000, 256_000), 32_000, typed.profile, typed.overrides)
    if not (with_files or generate):
        raise UsageFault("name at least one FILE of recorded runs")
    return [
        VariantRequest(
            policies=names(typed.policy) or ("pace",),
            budgets=budgets or (4_000,),
            lambdas=decimals("--lambda", typed.lambdas),
            layouts=names(typed.layout),
            scope="request" if generate else typed.scope,
            profile=typed.profile,
            file=typed.config,
            options=typed.overrides,
        )
    ]


def carry_out(request: ReplayRequest, json_file: str | None, figures: Path | None) -> None:
    """Replay, write, show."""
    from dataclasses import replace

    from runners.environment import forget_secrets, read_environment
    from runners.replay.command import replay as run
    from runners.replay.figures import plotting

    environment = read_environment()
    forget_secrets()
    if figures is not None:
        plotting()
    key = environment.secret("OPENAI_API_KEY")
    deliver(run(replace(request, cache=environment.home / "cache", api_key=key)), json_file, figures)


def deliver(report: ReplayReport, json_file: str | None, figures: Path | None = None) -> None:
    """Write and show a report."""
    from runners.replay.figures import draw
    from runners.replay.report import show, to_json
    from runners.report import write_json

    if json_file:
        write_json(to_json(report), json_file)
    drawn = draw(report, figures) if figures is not None else []
    if json_file != "-":
        show(report)
        for path in drawn:
            typer.echo(f"figure: {path}")


def names(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def integers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas. Raises UsageFault."""
    return tuple(int(number) for number in _numbers(option, text, int))


def decimals(option: str, text: str) -> tuple[float, ...]:
    """Numbers with commas. Raises UsageFault."""
    return tuple(_numbers(option, text, float))


def _numbers(option: str, text: str, kind: Callable[[str], float]) -> list[float]:
    from runners.errors import UsageFault

    try:
        return [kind(part) for part in names(text)]
    except ValueError as fault:
        raise UsageFault(f"{option} {text}: not a list of numbers") from fault


def chosen_price(path: Path | None, model: str) -> ModelPrice:
    """The price of a model in a table, by default the packaged example. Raises UsageFault."""
    from importlib.resources import as_file, files

    from agent.pricing import Prices
    from runners.errors import UsageFault

    with as_file(files("configs") / "prices.example.yaml") as packaged:
        try:
            price = Prices.load(path or packaged).of(model)
        except (OSError, ValueError) as fault:
            reason = f"cannot be read: {fault.strerror}" if isinstance(fault, OSError) else str(fault)
            raise UsageFault(f"--prices {path or 'of the package'}: {reason}") from fault
    if price is None:
        raise UsageFault(f"--price-of {model}: not in {path or 'the packaged price table'}")
    return price
