"""``longstride serve``: the memory as a service over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import (
    ConfigFile,
    JsonFile,
    LogLevel,
    Overrides,
    Policy,
    Profile,
    StoreAddress,
    config_request,
)

Host = Annotated[str, typer.Option("--host", help="Address to listen on; another than loopback needs a token.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Name that requests may be addressed to; repeatable."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Offer /select_debug: every score and reason.")]
MaxSessions = Annotated[
    int,
    typer.Option("--max-sessions", min=1, help="Sessions held open at once; each takes a connection of the database."),
]
CacheMib = Annotated[int, typer.Option("--cache-mib", min=1, help="Memory for the keys of candidates.")]
Prewarm = Annotated[
    Path | None, typer.Option("--prewarm", metavar="FILE", help="Texts, one a line, whose keys are made at the start.")
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8077,
    allow_host: AllowHost = None,
    debug: Debug = False,
    cache_mib: CacheMib = 256,
    at: StoreAddress = None,
    max_sessions: MaxSessions = 16,
    prewarm: Prewarm = None,
    policy: Policy = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
) -> None:
    """Serve selection and sessions over HTTP, on this machine, until Ctrl-C.

    Sessions are files, or, with --at or LONGSTRIDE_STORE, in a database that several services may share. The bearer
    token is read from LONGSTRIDE_TOKEN; without one the service listens on loopback only."""
    import asyncio

    from pydantic import ValidationError

    from runners.config import load_config
    from runners.environment import Secret, forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.logs import setup_logging
    from runners.report import write_json
    from runners.service import serving
    from runners.service.settings import TOKEN, ServiceSettings
    from runners.stores import with_database

    environment, database = with_database(read_environment(), at)
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    serving.check_extra()
    token = environment.secret(TOKEN)
    try:
        settings = ServiceSettings(
            host=host,
            port=port,
            token=Secret(token) if token else None,
            hosts=tuple(allow_host or ()),
            debug=debug,
            cache_mib=cache_mib,
            database=database,
            max_sessions=max_sessions,
        )
    except ValidationError as fault:
        raise UsageFault(f"{TOKEN}: {fault.errors()[0]['msg']}") from None

    def ready(url: str) -> None:
        if json_file:
            write_json({"url": url, "token": token is not None}, json_file)
        if json_file != "-":
            typer.echo(f"serving on {url}", err=True)

    run = load_config(config_request(profile, policy, None, config, overrides))
    asyncio.run(serving.serve(settings, environment, run, prewarm=_texts(prewarm), ready=ready))


def _texts(file: Path | None) -> list[str]:
    """Its lines that hold something. Raises UsageFault."""
    from runners.errors import UsageFault

    try:
        return [line for line in file.read_text("utf-8").splitlines() if line.strip()] if file else []
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"cannot read {file}: {fault}") from fault
