"""One tool of an MCP server, as a tool of ours."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ConfigDict

from memory.records import JsonValue, Observation, ToolSpec
from tools.base import Arguments, CallContext, ToolError
from tools.mcp.server import McpServer


class Anything(Arguments):
    """Arguments that the server checks itself: its schema is what the model is shown."""

    model_config = ConfigDict(extra="allow")

    @property
    def given(self) -> Mapping[str, JsonValue]:
        return dict(self.__pydantic_extra__ or {})


class McpTool:
    """Called ``server__tool``. Its texts and results are outside text. The server is closed by whoever made it."""

    arguments: type[Arguments] = Anything

    def __init__(self, server: McpServer, spec: ToolSpec) -> None:
        self._server = server
        self.spec = spec
        self.name = spec.name
        self.description = spec.description
        # the server's own limits come first: these are for a start on the way
        self.timeout_s = server.config.timeout_s + 2 * server.config.start_s

    async def run(self, arguments: Anything, context: CallContext) -> Observation:
        """Raises ToolError."""
        result = await self._server.call(self.name, arguments.given)
        if result.failed:
            raise ToolError("execution", result.text)
        return Observation(context.call_id, self.name, result.text, sources=result.sources)

    async def aclose(self) -> None:
        pass
