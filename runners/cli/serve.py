"""``longstride serve``: the memory as a service over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ConfigFile, JsonFile, LogLevel, Overrides, Policy, Profile, config_request

Host = Annotated[str, typer.Option("--host", help="Address to listen on; another than loopback needs a token.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Name that requests may be addressed to; repeatable."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Offer /select_debug: every score and reason.")]
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
    prewarm: Prewarm = None,
    policy: Policy = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    json_file: JsonFile = None,
    log_level: LogLevel = "warning",
) -> None:
    """Serve selection and sessions over HTTP, on this machine, until Ctrl-C.

    The bearer token is read from LONGSTRIDE_TOKEN; without one the service listens on loopback only."""
    import asyncio

    from pydantic import ValidationError

    from runners.config import load_config
    from runners.environment import Secret, forget_secrets, read_environment
    from runners.errors import UsageFault
    from runners.logs import setup_logging
    from runners.report import write_json
    from runners.service.serving import check_extra
    from runners.service.serving import serve as serving
    from runners.service.settings import TOKEN, ServiceSettings

    environment = read_environment()
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    check_extra()
    token = environment.secret(TOKEN)
    try:
        settings = ServiceSettings(
            host=host,
            port=port,
            token=Secret(token) if token else None,
            hosts=tuple(allow_host or ()),
            debug=debug,
            cache_mib=cache_mib,
        )
        texts = prewarm.read_text("utf-8").splitlines() if prewarm else []
    except ValidationError as fault:
        raise UsageFault(f"{TOKEN}: {fault.errors()[0]['msg']}") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"cannot read {prewarm}: {fault}") from fault

    def ready(url: str) -> None:
        if json_file:
            write_json({"url": url, "token": token is not None}, json_file)
        if json_file != "-":
            typer.echo(f"serving on {url}", err=True)

    run = load_config(config_request(profile, policy, None, config, overrides))
    asyncio.run(serving(settings, environment, run, prewarm=filter(str.strip, texts), ready=ready))
