"""``longstride fork``: go another way from a step of a session."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from runners.cli.options import JsonFile
from runners.cli.run import SessionName

AtStep = Annotated[
    int | None, typer.Option("--at-step", min=0, metavar="N", help="The last step to keep (default: all of them).")
]


Beside = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR|ADDRESS",
        help="Where the new session goes: a folder, or postgresql://user@host/database#name (default: beside the other "
        "one).",
        rich_help_panel="Output",
    ),
]


def fork(session: SessionName, at_step: AtStep = None, out: Beside = None, json_file: JsonFile = None) -> None:
    """Make a new session out of the first steps of another one, which stays as it is; `resume` goes on with it."""
    import asyncio

    from runners.checking import tell_checking
    from runners.environment import forget_secrets, read_environment
    from runners.forking import fork_session
    from runners.report import check_json, write_json
    from runners.stores import find_session, new_session

    environment = read_environment()
    forget_secrets()
    check_json(json_file)
    source = find_session(environment, session)
    target = new_session(environment, out, beside=source)
    try:
        report = asyncio.run(fork_session(source, target, at_step, tell_checking))
    finally:
        target.leave_empty()
    if json_file:
        write_json(asdict(report), json_file)
    if json_file != "-":
        typer.echo(report.session if target.path.parent.name == "runs" else report.folder)
