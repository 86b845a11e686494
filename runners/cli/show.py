"""``longstride show``: what a session did, step by step, and what each context was made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli.options import JsonFile
from runners.cli.run import SessionName

if TYPE_CHECKING:
    from runners.environment import Environment
    from runners.folders import SessionFolder
    from runners.report import ShowReport

HtmlFile = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the session as one page that needs nothing else: every chunk at every step, with score and reason.",
        rich_help_panel="Output",
    ),
]


def show(session: SessionName, html: HtmlFile = None, json_file: JsonFile = None) -> None:
    """Show a session: its steps, the levels that old steps were shown at, and the tokens of every context."""
    import asyncio

    from memory.store.address import masked
    from runners.environment import forget_secrets, read_environment
    from runners.report import to_json, write_json, write_whole
    from runners.stores import find_session, knowing

    environment = read_environment()
    forget_secrets()
    folder = find_session(environment, session)
    environment = knowing(environment, folder)
    if html is not None:
        write_whole(html, asyncio.run(_page(folder, environment)), "--html")
    report = asyncio.run(_read(folder, masked(session))) if json_file or html is None else None
    if report is not None and json_file:
        write_json(to_json(report), json_file)
    if html is not None:
        typer.echo(str(html), err=json_file == "-")
    elif report is not None and json_file != "-":
        _print(report)


async def _read(folder: SessionFolder, name: str) -> ShowReport:
    from runners.checking import tell_checking
    from runners.outcome import show_report
    from runners.stores import open_store

    async with await open_store(folder, create=False, read_only=True, checking=tell_checking) as store:
        return await show_report(name, store)


async def _page(folder: SessionFolder, environment: Environment) -> str:
    from runners.checking import tell_checking
    from runners.redact import Redactor
    from runners.stores import open_store
    from runners.viewer.page import recorded_page
    from runners.viewer.recorded import Recorded

    redact = Redactor(environment.secrets.values(), shapes=True)
    async with await open_store(folder, create=False, read_only=True, checking=tell_checking) as store:
        return await recorded_page(await Recorded.open(folder.name, store, redact))


def _print(report: ShowReport) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for question in report.questions:
        console.print(Text(f"? {question}", "bold"), soft_wrap=True)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("step", "what", "tokens", "of", "P", "full", "det", "brief", "line"):
        table.add_column(title, justify="left" if title == "what" else "right", overflow="fold")
    for step in report.steps:
        line, brief, detailed, full = step.shown or ("", "", "", "")
        pressure = "" if step.pressure is None else f"{step.pressure:.2f}"
        figures = (step.tokens or "", step.budget or "", pressure, full, detailed, brief, line)
        table.add_row(str(step.step), Text(step.summary), *(str(figure) for figure in figures))
    console.print(table)
    console.print(Text(f"status: {report.status}", "dim"))
