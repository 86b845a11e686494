"""The MCP servers of a configuration, and their tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from memory.records import ToolSpec
from runners.environment import Environment, harmless
from runners.errors import UsageFault
from tools.mcp.config import McpFault, McpServerConfig
from tools.mcp.server import Access, McpServer
from tools.mcp.tool import McpTool

T = TypeVar("T")
NAMED = 8
_LOGGER = logging.getLogger(__name__)


def access(server: str, config: McpServerConfig, environment: Environment) -> Access:
    """What a server is given of our environment. Raises McpFault for a variable that is named and not set."""
    given: dict[str, str] = {}
    for name in config.variables:
        value = environment.given(name)
        if not value:
            raise McpFault(f"MCP server {server}: the variable {name} is not set", "set it, or add it to .env")
        given[name] = value
    variables = {**harmless(), **config.env, **{name: given[name] for name in config.pass_env}}
    token = given[config.token_env] if config.token_env else None
    return Access(variables, token, tuple(given.values()))


async def open_servers(
    configs: Mapping[str, McpServerConfig],
    environment: Environment,
    stack: AsyncExitStack,
    recorded: Sequence[ToolSpec] | None = None,
) -> list[McpTool]:
    """The tools of every server; ``stack`` ends the servers. All start at once; with ``recorded``, the tools that a
    session offers, each only when it is first called. Raises UsageFault for a server that cannot be used."""
    servers = []
    try:
        for name, config in configs.items():
            try:
                servers.append(McpServer(name, config, access(name, config, environment)))
            except McpFault as fault:
                if recorded is None:
                    raise
                _LOGGER.warning("%s: its tools are not available", fault)
                continue
            stack.push_async_callback(servers[-1].aclose)
        if recorded is not None:
            return [McpTool(one, spec) for one in servers for spec in recorded if spec.name.startswith(f"{one.name}__")]
        listed = await _all(server.offers() for server in servers)
    except McpFault as fault:
        raise UsageFault(str(fault), hint=fault.hint) from fault
    return [McpTool(server, spec) for server, specs in zip(servers, listed, strict=True) for spec in specs]


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in order; where one fails, the others are given up before that is raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def look_at(name: str, config: McpServerConfig, environment: Environment) -> str:
    """Start a server, say what it would offer, and end it. Raises McpFault."""
    server = McpServer(name, config, access(name, config, environment))
    try:
        tools = [spec.name for spec in await server.offers()]
    finally:
        await server.aclose()
    more = f" and {len(tools) - NAMED} more" if len(tools) > NAMED else ""
    return f"{len(tools)} tools: {', '.join(tools[:NAMED])}{more}" if tools else "no tools"
