"""``longstride memory-eval``: dialogue memories under context policies, with and without a reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runners.cli.options import ConfigFile, JsonFile, Overrides, Profile
from runners.cli.replay import decimals, integers, names

if TYPE_CHECKING:
    from runners.environment import Environment
    from runners.memory_eval.readers import Model

_GRID = "Grid"
_ANSWERS = "Answers"
Set = Annotated[Literal["longmemeval", "locomo"], typer.Argument(metavar="SET", help="longmemeval or locomo.")]
Data = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="Folder or file of the set, as its authors publish it.")
]
Selectors = Annotated[
    str,
    typer.Option(
        "--selectors", metavar="A,B", help="Context policies; the first is compared with.", rich_help_panel=_GRID
    ),
]
Shares = Annotated[
    str,
    typer.Option(
        "--budget-share",
        metavar="P,Q",
        help="Budgets in percent of the dialogue's tokens; 20,45,70 when no budget is named.",
        rich_help_panel=_GRID,
    ),
]
Tokens = Annotated[
    str, typer.Option("--budget-tokens", metavar="N,M", help="Budgets in tokens.", rich_help_panel=_GRID)
]
Redundancy = Annotated[
    str,
    typer.Option(
        "--redundancy",
        metavar="R,S",
        help="Fillers put in for every evidence turn (PACMS: 0,2,4,8).",
        rich_help_panel=_GRID,
    ),
]
ReaderName = Annotated[
    str,
    typer.Option(
        "--reader",
        metavar="NAME",
        help="Backbone that answers over each context: embedded (no LLM), any other, a YAML file; none.",
        rich_help_panel=_ANSWERS,
    ),
]
JudgeName = Annotated[
    str,
    typer.Option("--judge", metavar="NAME", help="Backbone that grades the answers.", rich_help_panel=_ANSWERS),
]
Rows = Annotated[
    Path | None,
    typer.Option(
        "--rows",
        metavar="FILE",
        help="Results as they come; what the file holds is not computed again (default: beside --json).",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Only N questions, evenly spaced over the set.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of fillers and intervals.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, metavar="N", help="Processes (default: one a core).")]


def memory_eval(
    set_name: Set,
    data: Data,
    selectors: Selectors = "last-k,top-k,rag,mmr,pacms,pace,mosaic",
    budget_share: Shares = "",
    budget_tokens: Tokens = "",
    redundancy: Redundancy = "0",
    reader: ReaderName = "embedded",
    judge: JudgeName = "",
    rows: Rows = None,
    limit: Limit = None,
    seed: Seed = 0,
    workers: Workers = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """Ask the questions of LongMemEval or LoCoMo over what each context policy keeps of the dialogue: is the evidence
    shown, can the answer be read, is it answered? Without --reader and --judge of your own, no model and no network."""
    import os

    from runners.environment import forget_secrets, read_environment
    from runners.memory_eval.cells import GridRequest
    from runners.memory_eval.command import MemoryRequest, evaluate
    from runners.memory_eval.report import to_json
    from runners.memory_eval.show import show
    from runners.report import check_json, write_json

    check_json(json_file)
    environment = read_environment()
    forget_secrets()
    shares, tokens = decimals("--budget-share", budget_share), integers("--budget-tokens", budget_tokens)
    numbers = integers("--redundancy", redundancy)
    grid = GridRequest(names(selectors), shares, tokens, numbers, profile, config, tuple(overrides or ()))
    report = evaluate(
        MemoryRequest(
            set=set_name,
            data=data,
            grid=grid,
            reader=model_of(reader, config, environment) if reader not in ("", "none") else None,
            judge=model_of(judge, config, environment) if judge not in ("", "none") else None,
            limit=limit,
            seed=seed,
            workers=workers or os.cpu_count() or 1,
            rows=rows or (Path(json_file).with_suffix(".rows.jsonl") if json_file not in (None, "-") else None),
            cache=environment.home / "cache",
            api_key=environment.secret("OPENAI_API_KEY"),
            done=_told,
        )
    )
    if json_file:
        write_json(to_json(report), json_file)
    if json_file != "-":
        show(report)


def model_of(name: str, config: Path | None, environment: Environment) -> Model:
    """The backbone of that name, with the keys it may need. Raises ConfigError."""
    from runners.config import load_config
    from runners.memory_eval.readers import Model
    from runners.request import ConfigRequest

    backbone = load_config(ConfigRequest(backbone=name, file=config)).backbone
    label = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    return Model(label, backbone, environment.variables())


def _told(done: int, total: int) -> None:
    """On a terminal, how far it is."""
    import sys

    if sys.stderr.isatty():
        typer.echo(f"\r{done} of {total} dialogues" + ("\n" if done == total else ""), err=True, nl=False)
