"""``longstride doctor``: whether this machine and this configuration can run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli.exits import DONE, FAILED
from runners.cli.options import Backbone, ConfigFile, JsonFile, Overrides, Policy, Profile, config_request

if TYPE_CHECKING:
    from runners.health import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


Session = Annotated[
    str | None,
    typer.Option("--session", metavar="SESSION", help="Check this session's files instead: is everything whole?"),
]


def doctor(
    session: Session = None,
    profile: Profile = None,
    policy: Policy = None,
    backbone: Backbone = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """Check this machine, the keys and the configuration: what works, what does not, what to do about it."""
    checks = _machine(profile, policy, backbone, config, overrides) if session is None else _session(session)
    _report(checks, json_file)


def _session(name: str) -> list[Check]:
    import asyncio

    from runners.checking import tell_checking
    from runners.environment import forget_secrets, read_environment
    from runners.session_health import check_session
    from runners.stores import find_session

    environment = read_environment()
    forget_secrets()
    return asyncio.run(check_session(find_session(environment, name), tell_checking))


def _machine(
    profile: str | None, policy: str | None, backbone: str | None, config: Path | None, overrides: list[str] | None
) -> list[Check]:
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.health import check_config, check_machine

    chosen = load_config(config_request(profile, policy, backbone, config, overrides))
    environment = read_environment()
    forget_secrets()
    return [*check_machine(environment), *check_config(chosen, environment)]


def _report(checks: list[Check], json_file: str | None) -> None:
    from runners.health import checks_json
    from runners.report import write_json

    report = checks_json(checks)
    if json_file:
        write_json(report, json_file)
    if json_file != "-":
        _show(checks)
    raise typer.Exit(DONE if report["ok"] else FAILED)


def _show(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tools.python.base import UNSAFE

    table = Table(box=None, show_header=False, padding=(0, 1))
    for check in checks:
        detail = Text(check.detail, _STYLES["fail"] if check.detail.startswith(UNSAFE) else "")
        if check.hint:
            detail.append(f"\n{check.hint}", style="dim")
        table.add_row(Text(check.state, style=_STYLES[check.state]), check.name, detail)
    Console().print(table)
