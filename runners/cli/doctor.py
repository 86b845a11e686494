"""``longstride doctor``: whether this machine and this configuration can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from runners.cli.exits import DONE, FAILED
from runners.cli.options import Backbone, ConfigFile, JsonFile, Overrides, Policy, Profile, config_request

if TYPE_CHECKING:
    from runners.health import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    profile: Profile = None,
    policy: Policy = None,
    backbone: Backbone = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
) -> None:
    """Check this machine, the keys and the configuration: what works, what does not, what to do about it."""
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.health import check_config, check_machine, checks_json
    from runners.report import write_json

    chosen = load_config(config_request(profile, policy, backbone, config, overrides))
    named = {chosen.backbone.api_key_env or ""}
    environment = read_environment(also=named)
    forget_secrets(also=named)
    checks = [*check_machine(environment), *check_config(chosen, environment)]
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
