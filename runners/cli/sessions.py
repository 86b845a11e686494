"""``longstride sessions``: what sessions there are, one in detail, one for elsewhere, and removing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memory.store.address import masked
from runners.cli.exits import FAILED
from runners.cli.options import JsonFile, Out
from runners.cli.run import SessionName
from runners.cli.show import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.records import JsonValue
    from runners.environment import Environment
    from runners.folders import SessionFolder
    from runners.sessions.catalogue import SessionEntry

Form = Annotated[
    Literal["jsonl", "alibaba", "openai", "atif", "tar"],
    typer.Option(
        "--format",
        help="jsonl: our own steps; alibaba: the jsonl of the DeepResearch family; openai: chat messages; atif: ATIF "
        "v1.7; tar: the whole folder.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Where it goes; `-` for stdout. Default: named by session and format."),
]
Names = Annotated[list[str] | None, typer.Argument(metavar="[SESSION]...", help="By name, beginning of it, or folder.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="AGE", help="Without activity for longer: 30d, 12h, 2w.")
]
Keep = Annotated[int, typer.Option("--keep", min=0, metavar="N", help="The latest N sessions stay.")]
StatusOption = Annotated[
    str | None, typer.Option("--status", metavar="NAMES", help="Only these, as in `completed,broken`.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")]

At = Annotated[
    str | None, typer.Option("--at", metavar="ADDRESS", help="A database besides. Default: LONGSTRIDE_STORE.")
]
RulesAt = Annotated[str | None, typer.Option("--at", metavar="ADDRESS", help="Of this database, not of the disk.")]
Database = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="postgresql://user@host/database, with #name for another name.")
]


def list_sessions(status: StatusOption = None, at: At = None, json_file: JsonFile = None) -> None:
    """List the sessions, latest first: status, steps, size, policy, question; broken ones say why.

    Where a database cannot be reached, the files are listed, and the exit code is 1.
    """
    from dataclasses import asdict

    from runners.environment import forget_secrets, read_environment
    from runners.report import write_json
    from runners.sessions.catalogue import catalogue
    from runners.stores import database_at

    environment = read_environment()
    forget_secrets()
    wanted = _statuses(status)
    found = catalogue(environment.home, database_at(environment, at))
    entries = [entry for entry in found.sessions if not wanted or entry.status in wanted]
    missing: list[JsonValue] = [{"database": found.database, "problem": found.problem}] if found.problem else []
    if json_file:
        write_json({"sessions": [asdict(entry) for entry in entries], "missing": missing}, json_file)
    if json_file != "-":
        _print(entries)
    if missing:
        typer.echo(f"longstride: not all sessions are listed: {masked(found.problem)}", err=True)
        raise typer.Exit(FAILED)


def export(session: SessionName, form: Form = "jsonl", out: Target = None) -> None:
    """Write a session to a file for elsewhere: sanitised, and without the secrets that are known or look like keys."""
    from runners.environment import forget_secrets, read_environment
    from runners.redact import Redactor
    from runners.sessions.export import export as write
    from runners.stores import find_session, knowing

    environment = read_environment()
    forget_secrets()
    folder = find_session(environment, session)
    environment = knowing(environment, folder)
    path = write(folder, form, out, Redactor(environment.secrets.values(), shapes=True))
    if path is not None:
        typer.echo(str(path))


def rm(
    names: Names = None,
    older_than: OlderThan = None,
    keep: Keep = 0,
    status: StatusOption = None,
    at: RulesAt = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove sessions and everything of them: by name, or all that --older-than, --keep and --status leave over.

    These rules are for the sessions on the disk; with --at, for those of that database instead. A session that a
    process holds is refused.
    """
    from memory.errors import MemoryFault
    from runners.environment import forget_secrets, read_environment
    from runners.sessions.remove import finish, remove

    environment = read_environment()
    forget_secrets()
    folders = _chosen(environment, names, older_than, keep, status, at)
    if not folders or dry_run:
        _would(folders)
        return
    if not yes:
        shown = ", ".join(folder.name for folder in folders[:5]) + (", …" if len(folders) > 5 else "")
        typer.confirm(f"Remove {len(folders)} session(s) for good: {shown}?", abort=True, err=True)
    refused = False
    for folder in folders:
        try:
            remove(folder, environment.home)
        except MemoryFault as fault:
            refused = True
            typer.echo(f"{folder.name}: not removed: {masked(' '.join(str(fault).split()))}", err=True)
        else:
            typer.echo(f"removed {folder.name}")
    finish(environment.home)
    if refused:
        raise typer.Exit(1)


def _would(folders: Sequence[SessionFolder]) -> None:
    """Say what would go."""
    from runners.sessions.remove import holder

    held = {folder: who for folder in folders if (who := holder(folder))}
    for folder in folders:
        typer.echo(f"would not remove {folder}: held by {held[folder]}" if folder in held else f"would remove {folder}")
    typer.echo(f"{len(folders) - len(held)} sessions")


def _chosen(
    environment: Environment,
    names: Sequence[str] | None,
    older_than: str | None,
    keep: int,
    status: str | None,
    at: str | None,
) -> list[SessionFolder]:
    """The sessions that the arguments mean. Raises UsageFault for none, NotStored for an unknown name, StoreFault."""
    from memory.errors import StoreFault
    from runners.errors import UsageFault
    from runners.sessions.catalogue import catalogue, catalogue_of
    from runners.sessions.remove import Retention, age, known_folder
    from runners.stores import database_at

    rules = older_than is not None or keep or status
    if names and (rules or at):
        raise UsageFault("either names, or --older-than, --keep and --status, with --at or without")
    if names:
        return list(dict.fromkeys(known_folder(environment, name) for name in names))
    if not rules:
        raise UsageFault("which session?", hint="name it, or say --older-than, --keep or --status")
    retention = Retention(age(older_than) if older_than else None, keep, _statuses(status))
    database = database_at(environment, at) if at else None
    found = catalogue(environment.home) if database is None else catalogue_of(environment.home, database)
    if found.problem:  # what is the latest cannot be known then
        raise StoreFault(f"not all sessions are known: {found.problem}")
    return [entry.where(environment.home, database) for entry in retention.chosen(found.sessions)]


def _statuses(given: str | None) -> frozenset[str]:
    from typing import get_args

    from agent.errors import Status
    from runners.sessions.catalogue import BROKEN, RUNNING
    from runners.sessions.remove import check_statuses

    return check_statuses(given, (*get_args(Status), BROKEN, RUNNING, "open", "new"))


def _print(entries: Sequence[SessionEntry]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from runners.meter import one_line

    console = Console()
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("session", "status", "steps", "size", "policy", "last activity", "question"):
        numeric = title in ("steps", "size")
        table.add_column(title, justify="right" if numeric else "left", overflow="fold", no_wrap=title == "session")
    for entry in entries:
        about = one_line(entry.problem if entry.status == "broken" else entry.question, 120)
        style = "red" if entry.status == "broken" else ""
        cells = (entry.session, entry.status, f"{entry.steps:,}", size_text(entry.bytes), entry.policy, entry.when)
        table.add_row(*(Text(one_line(cell, 80), style) for cell in cells), Text(about, style))
    console.print(table)
    console.print(Text(f"{len(entries)} sessions, {size_text(sum(entry.bytes for entry in entries))}", "dim"))


def size_text(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def push(session: SessionName, address: Database) -> None:
    """Copy a session into a database, with everything in it: whole, or not at all."""
    from runners.environment import forget_secrets, read_environment
    from runners.sessions.transfer import push_session
    from runners.stores import database_at, find_session

    environment = read_environment()
    forget_secrets()
    database = database_at(environment, address)
    assert database is not None
    there, made = push_session(find_session(environment, session), database)
    typer.echo(f"{there}{'' if made else ' (was there already, and is equal)'}")


def pull(session: SessionName, out: Out = None) -> None:
    """Copy a session of a database into a folder of its own: the way back from `push`."""
    from runners.environment import forget_secrets, read_environment
    from runners.folders import SessionFolder
    from runners.sessions.transfer import pull_session
    from runners.stores import find_session

    environment = read_environment()
    forget_secrets()
    source = find_session(environment, session)
    folder = SessionFolder(out or environment.home / "runs" / source.name)
    made = pull_session(source, folder)
    typer.echo(f"{folder}{'' if made else ' (was there already, and is equal)'}")


SESSIONS: Mapping[str, Callable[..., Any]] = {
    "list": list_sessions,
    "show": show,
    "export": export,
    "rm": rm,
    "push": push,
    "pull": pull,
}
