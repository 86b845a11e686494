"""``longstride ui``: the viewer, live, on a service of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli.options import ConfigFile, LogLevel, Overrides, Profile, StoreAddress, config_request

Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")]


def ui(
    port: Port = 0,
    open_page: Open = True,
    at: StoreAddress = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    log_level: LogLevel = "warning",
) -> None:
    """Look at sessions in the browser, running or recorded, and plan their steps again, until Ctrl-C.

    The address that it prints works once; the browser then holds a cookie for as long as this runs."""
    import asyncio
    import secrets
    import webbrowser

    from runners.config import load_config
    from runners.environment import Secret, forget_secrets, read_environment
    from runners.logs import setup_logging
    from runners.service.passes import ENTER, Passes
    from runners.service.serving import check_extra, serve
    from runners.service.settings import ServiceSettings
    from runners.stores import with_database

    environment, database = with_database(read_environment(), at)
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    check_extra()
    # nobody is told this one: pages come in by their pass, and nothing else may
    settings = ServiceSettings(port=port, database=database, token=Secret(secrets.token_urlsafe(32)))
    passes = Passes()

    def ready(url: str) -> None:
        address = f"{url}{ENTER}?token={passes.issue()}"
        typer.echo(address)
        if open_page:
            webbrowser.open(address)

    run = load_config(config_request(profile, None, None, config, overrides))
    asyncio.run(serve(settings, environment, run, ready=ready, passes=passes))
