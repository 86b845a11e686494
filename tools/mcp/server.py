"""A server over a run: started when needed, started again a few times when it fails, ended with the run."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from memory.records import JsonValue, ToolSpec
from memory.sanitize import sanitize
from tools.base import ToolError
from tools.mcp.config import CallRefused, Ended, McpFault, McpServerConfig
from tools.mcp.offer import NAMED, Listed, full_name, offers
from tools.mcp.results import Shown, redacted, shown

if TYPE_CHECKING:
    from tools.mcp.connection import Connection

INSTALL = "pip install 'longstride[mcp]'"
MAX_UNANSWERED = 2
"""Calls in a row without an answer after which a server is started anew."""
CLOSE_S = 8.0
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """What a server is given of our environment. ``variables``: the whole environment of its process; ``secrets``:
    those of its values that must not come back."""

    variables: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    secrets: tuple[str, ...] = ()


class McpServer:
    """One configured server. One call at a time waits for a start; calls themselves may overlap."""

    def __init__(self, name: str, config: McpServerConfig, access: Access) -> None:
        """Raises McpFault when the extra is missing."""
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            raise McpFault(f"MCP server {name}: the extra mcp is not installed", INSTALL) from error
        self.name = name
        self.config = config
        self._access = access
        self._life: _Life | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._starts = 0
        self._unanswered = 0
        self._turn = asyncio.Lock()

    async def offers(self) -> list[ToolSpec]:
        """Start it and ask what it offers; what cannot be offered is logged. Raises McpFault."""
        async with self._turn:
            listed = (await self._running()).listed
        found, left_out = offers(self.name, listed, self.config.allow)
        if any(self._redacted(text) != text for text in (json.dumps(asdict(spec)) for spec in found)):
            raise McpFault(f"MCP server {self.name}: the description of a tool holds a value that the server was given")
        if left_out:
            more = f" (and {len(left_out) - NAMED} more)" if len(left_out) > NAMED else ""
            why = self._redacted("; ".join(left_out[:NAMED]))
            _LOGGER.warning("MCP server %s: not offered: %s%s", self.name, why, more)
        return found

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> Shown:
        """One call of an offered tool by the name that the model knows. Raises ToolError: ``timeout``, or
        ``execution`` for everything that the server does wrong."""
        try:
            async with self._turn:
                life = await self._running()
        except McpFault as fault:
            raise ToolError("execution", str(fault)) from fault
        calling = life.begin(self._tool(name, life), arguments)
        try:
            await asyncio.wait({calling}, timeout=self.config.timeout_s)
            if not calling.done():
                self._no_answer(life)
                raise ToolError("timeout", f"MCP server {self.name} gave no answer in {self.config.timeout_s:g} s")
        finally:
            calling.cancel()  # the server is told; nobody waits for whether it listens
        self._unanswered = 0
        if calling.cancelled():
            raise self._error("was ended during the call")
        try:
            result = calling.result()
        except Ended as end:
            raise self._error(f"broke off the call: {end}") from end
        except CallRefused as refusal:
            raise self._error(f"refused the call: {refusal}") from refusal
        # making megabytes storable takes a while
        return await asyncio.to_thread(shown, result, self.config.max_chars, self._access.secrets)

    async def aclose(self) -> None:
        """Nothing of the server is left when this returns."""
        self._drop()
        while self._ending:
            done, self._ending = await asyncio.wait(self._ending)
            for ended in done:
                ended.result()

    def _drop(self) -> None:
        """The life there is ends, in its own time: whoever starts the next one, or closes, waits for that."""
        if self._life is not None:
            self._ending.add(asyncio.create_task(self._life.aclose()))
            self._life = None

    def _tool(self, name: str, life: _Life) -> str:
        """What the server calls it now. Raises ToolError for a tool that it had when the session began."""
        for tool in life.listed:
            if full_name(self.name, tool.name) == name:
                return tool.name
        raise ToolError("unsupported", f"MCP server {self.name} does not have this tool any more")

    def _no_answer(self, life: _Life) -> None:
        self._unanswered += 1
        if self._unanswered >= MAX_UNANSWERED and self._life is life:
            self._unanswered = 0
            self._drop()

    async def _running(self) -> _Life:
        """Raises McpFault when it cannot be started, or has been started too often."""
        if self._life is not None and not self._life.connection.over.is_set():
            return self._life
        await self.aclose()
        if self._starts > self.config.restarts:
            times = f"{self._starts} times" if self._starts > 1 else "once"
            raise self._fault(f"it was started {times} and is not started again in this run: do without it")
        self._starts += 1
        life = _Life(self.config, self._access)
        try:
            await life.start()
        except McpFault as fault:
            raise self._fault(str(fault), fault.hint) from fault
        self._life = life
        return life

    def _error(self, what: str) -> ToolError:
        return ToolError("execution", f"MCP server {self.name} {self._redacted(what)}")

    def _fault(self, what: str, hint: str = "") -> McpFault:
        return McpFault(f"MCP server {self.name}: {sanitize(self._redacted(what), 600)}", hint)

    def _redacted(self, text: str) -> str:
        return redacted(text, self._access.secrets)


class _Life:
    """From one start to its end. The connection is opened and closed by a task of its own, as the SDK needs it."""

    def __init__(self, config: McpServerConfig, access: Access) -> None:
        self._config = config
        self._access = access
        self._stop = asyncio.Event()
        self._calls: set[asyncio.Task[Mapping[str, JsonValue]]] = set()
        self._ready: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self.connection: Connection
        self.listed: list[Listed] = []

    async def start(self) -> None:
        """Connect and list the tools. Raises McpFault; then nothing is left running."""
        owner = self._owner = asyncio.create_task(self._own())
        try:
            async with asyncio.timeout(self._config.start_s):
                both: set[asyncio.Future[Any]] = {self._ready, owner}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not self._ready.done():
                    owner.result()  # a fault of the program
                self.connection = self._ready.result()
                self.listed = await self.connection.tools()
        except TimeoutError as error:
            await self.aclose()
            raise McpFault(f"it was not ready within {self._config.start_s:g} s") from error
        except Ended as end:
            await self.aclose()
            raise McpFault(f"it did not start: {end}") from end
        except BaseException:
            await self.aclose()
            raise

    def begin(self, tool: str, arguments: Mapping[str, JsonValue]) -> asyncio.Task[Mapping[str, JsonValue]]:
        """A call under way. It may be cancelled at any time, and ends with this life at the latest."""
        calling = asyncio.create_task(self.connection.call(tool, arguments))
        self._calls.add(calling)
        calling.add_done_callback(self._forget)
        return calling

    async def aclose(self) -> None:
        for calling in list(self._calls):
            calling.cancel()
        self._stop.set()
        owner = self._owner
        if owner is None:
            return
        if not self._ready.done():
            owner.cancel()  # it is still waiting for the server
        done, _ = await asyncio.wait({owner}, timeout=CLOSE_S)
        if not done:
            owner.cancel()  # a goodbye over HTTP that nobody answers
            await asyncio.wait({owner})
        if self._ready.done():
            self._ready.exception()  # seen
        if not owner.cancelled():
            owner.result()

    def _forget(self, calling: asyncio.Task[Mapping[str, JsonValue]]) -> None:
        self._calls.discard(calling)
        if not calling.cancelled():
            calling.exception()  # seen, even when nobody waits any more

    async def _own(self) -> None:
        from tools.mcp.connection import connect

        try:
            async with connect(self._config, self._access.variables, self._access.token) as connection:
                self._ready.set_result(connection)
                try:
                    await self._stop.wait()
                finally:
                    connection.over.set()
        except (McpFault, OSError) as fault:
            self._report(fault if isinstance(fault, McpFault) else McpFault(str(fault)))
        except BaseExceptionGroup as group:
            self._report(_first(group))

    def _report(self, fault: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(fault)


def _first(group: BaseExceptionGroup[BaseException]) -> McpFault:
    """What a task group of the SDK broke on."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, McpFault) else McpFault(f"{type(error).__name__}: {error}")
