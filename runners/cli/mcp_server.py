"""``longstride mcp``: a session's memory for other people's agents, as an MCP server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runners.cli.options import ConfigFile, LogLevel, Overrides, Policy, Profile, config_request

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the memory; a new one is begun there.")]


def mcp(
    folder: Folder,
    policy: Policy = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    log_level: LogLevel = "warning",
) -> None:
    """Offer a memory to an MCP client over stdin and stdout: memory_search, glimpse, assemble, ingest.

    The folder of a session of `longstride run` is offered for searching and reading only."""
    import asyncio
    import os

    from runners.cli.exits import INTERRUPTED
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.folders import new_folder
    from runners.hosted import open_hosted
    from runners.logs import setup_logging
    from runners.mcp_server import check_extra, serve

    environment = read_environment()
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    check_extra()
    settings = load_config(config_request(profile, policy, None, config, overrides))
    session = new_folder(environment.home, folder)

    async def offer() -> bool:
        async with open_hosted(session, environment, settings, "mcp") as hosted:
            return await serve(hosted)

    if not asyncio.run(offer()):
        os._exit(INTERRUPTED)  # the memory is closed; a thread of the SDK still waits for stdin, and nothing ends it
