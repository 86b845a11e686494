"""``longstride mcp``: a session's memory for other people's agents, as an MCP server."""

from __future__ import annotations

from typing import Annotated

import typer

from runners.cli.options import ConfigFile, LogLevel, Overrides, Policy, Profile, config_request

Place = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER|ADDRESS",
        help="Folder of the memory, or postgresql://user@host/database#name; a new one is begun there. With "
        "LONGSTRIDE_STORE, a mere name is a session of that database.",
    ),
]


def mcp(
    place: Place,
    policy: Policy = None,
    profile: Profile = None,
    config: ConfigFile = None,
    overrides: Overrides = None,
    log_level: LogLevel = "warning",
) -> None:
    """Offer a memory to an MCP client over stdin and stdout: memory_search, glimpse, assemble, ingest.

    A session of `longstride run` is offered for searching and reading only."""
    import asyncio
    import os
    from functools import partial

    from runners.cli.exits import INTERRUPTED
    from runners.config import load_config
    from runners.environment import forget_secrets, read_environment
    from runners.hosted import Hosted, open_hosted
    from runners.kept import Kept
    from runners.logs import setup_logging
    from runners.mcp_server import check_extra, serve
    from runners.stores import knowing, memory_place

    environment = read_environment()
    session = memory_place(environment, place)
    environment = knowing(environment, session)
    setup_logging(log_level, environment.secrets)
    forget_secrets()
    check_extra()
    settings = load_config(config_request(profile, policy, None, config, overrides))

    async def offer() -> bool:
        kept: Kept[Hosted] = Kept(1)
        use = partial(kept.use, session.name, partial(open_hosted, session, environment, settings, "mcp"))
        try:
            async with use():
                pass
            return await serve(use)
        finally:
            await kept.aclose()

    if not asyncio.run(offer()):
        os._exit(INTERRUPTED)  # the memory is closed; a thread of the SDK still waits for stdin, and nothing ends it
