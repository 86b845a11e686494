"""A session with a server through the SDK (extra ``mcp``): the one module that imports it, and is imported lazily.

The SDK is used for the protocol only. Over pipes its messages pass through `Child`, over HTTP through a client of its
own kind whose answers are bounded. What a server asks of us (sampling, elicitation, roots) it does not get, and
what it tells us unasked is dropped before a task is made of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memory.records import JsonValue
from memory.sanitize import sanitize
from tools.mcp.config import CallRefused, Ended, McpFault, McpServerConfig
from tools.mcp.offer import Listed
from tools.mcp.process import Child

MAX_LISTED = 2_000
MAX_PAGES = 50
MAX_UNASKED = 8 << 20
"""Bytes that a server may send between two answers."""
MAX_ASKED_OF_US = 1_000
MAX_RESPONSE = 8 << 20
FORGOTTEN = "Session terminated"
"""What the SDK says when a server over HTTP no longer knows our session."""
_IDENTITY = types.Implementation(name="longstride", version="0.1")
_Streams: TypeAlias = tuple[Any, Any]


class Connection:
    """An initialized session. Use it in any task; it lives in the one that opened it."""

    def __init__(self, session: ClientSession, child: Child | None) -> None:
        self._session = session
        self._child = child
        self.over = asyncio.Event()
        """Set when the server will answer no more."""
        self.why = ""
        """What ended it, when that was seen before its process ended."""

    async def initialize(self) -> None:
        """Raises Ended, McpFault."""
        try:
            await self._session.initialize()
        except MCPError as error:
            raise await self._mapped(error, "initialize") from error
        except (ValidationError, RuntimeError) as error:
            raise McpFault(f"its answer to initialize makes no sense: {_nonsense(error)}") from error

    async def tools(self) -> list[Listed]:
        """Everything that the server lists. Raises Ended, McpFault."""
        found: list[Listed] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            try:
                page = await self._session.send_request(request, types.ListToolsResult)
            except MCPError as error:
                raise await self._mapped(error, "tools/list") from error
            except ValidationError as error:
                raise McpFault(f"its list of tools makes no sense: {_nonsense(error)}") from error
            found += [Listed(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor or len(found) > MAX_LISTED:
                return found[: MAX_LISTED + 1]
        return found

    async def call(self, tool: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """The result in the protocol's field names. Raises Ended, CallRefused.

        Sent as a plain request: the SDK's own call would check results against the server's output schema, and a
        schema can be made to take for ever.
        """
        try:
            json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:
            raise CallRefused("the arguments cannot be written as JSON") from error
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            result = await self._session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
        except MCPError as error:
            mapped = await self._mapped(error, "the call")
            raise mapped if isinstance(mapped, Ended) else CallRefused(_line(error)) from error
        except ValidationError as error:
            raise CallRefused(f"the server's answer makes no sense: {_nonsense(error)}") from error
        dumped: dict[str, JsonValue] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped

    async def _mapped(self, error: MCPError, what: str) -> McpFault:
        lost = error.code == types.CONNECTION_CLOSED or (not self._child and error.message == FORGOTTEN)
        if not lost and not self.over.is_set():
            return McpFault(f"it refused {what}: {_line(error)}")
        self.over.set()
        if self.why:
            return Ended(self.why)
        return Ended(await self._child.how_it_ended() if self._child else f"the connection broke: {_line(error)}")


@asynccontextmanager
async def connect(
    config: McpServerConfig, variables: Mapping[str, str], token: str | None
) -> AsyncIterator[Connection]:
    """Start or reach a server and initialize it. To be left by the task that entered. Raises McpFault, Ended."""
    async with AsyncExitStack() as stack:
        child = None
        if config.command:
            child = await Child.start(config, variables)
            stack.push_async_callback(child.aclose)
            pipe = _Pipe(child)
            reading, writing = await stack.enter_async_context(pipe.streams())
        else:
            reading, writing = await _http(config, token, stack)
        session = await stack.enter_async_context(ClientSession(reading, writing, client_info=_IDENTITY))
        connection = Connection(session, child)
        if child is not None:
            pipe.connection = connection
        await connection.initialize()
        yield connection


class _Gate:
    """What of a server's messages reaches the session: its answers, and a few requests, which the session declines."""

    def __init__(self) -> None:
        self._unasked = self._asked = 0

    def admits(self, message: object, size: int = 0) -> bool:
        """Raises McpFault for a flood."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._unasked = 0
            return True
        self._unasked += size
        if self._unasked > MAX_UNASKED:
            raise McpFault(f"it sent more than {MAX_UNASKED >> 20} MiB that nobody asked for")
        self._asked += isinstance(message, types.JSONRPCRequest)
        return isinstance(message, types.JSONRPCRequest) and self._asked <= MAX_ASKED_OF_US


class _Pipe:
    """Messages between the SDK and a child: lines of JSON."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._gate = _Gate()
        self.connection: Connection | None = None

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[_Streams]:
        into, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        async with into, reading, writing, out_of, _running(self._read(into), self._write(out_of, into)):
            yield reading, writing

    async def _read(self, into: Any) -> None:
        why = ""
        try:
            while line := await self._child.read_line():
                message = _parsed(line)
                if self._gate.admits(message, len(line)):
                    await into.send(SessionMessage(message))
        except McpFault as fault:
            why = str(fault)
        except anyio.BrokenResourceError:
            pass  # the session is closing
        finally:
            if self.connection is not None:
                self.connection.why = why
                self.connection.over.set()
            into.close()

    async def _write(self, out_of: Any, into: Any) -> None:
        try:
            async for message in out_of:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._child.write_line(text.encode("utf-8", "replace"))
        except OSError:
            into.close()  # nobody reads: nobody will answer


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """The work goes on while the block runs, and ends with it."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _parsed(line: bytes) -> Any:
    """A message, or None: servers also print what is none."""
    with contextlib.suppress(ValueError):
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # half a character is no reason to let a call wait for its time to run out
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line.decode("utf-8", "replace"))
        mended = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return types.jsonrpc_message_adapter.validate_json(mended, by_name=False)
    return None


async def _http(config: McpServerConfig, token: str | None, stack: AsyncExitStack) -> _Streams:
    headers = {"accept-encoding": "identity", **({"authorization": f"Bearer {token}"} if token else {})}
    client = httpx2.AsyncClient(
        transport=_Bounded(),
        headers=headers,
        timeout=httpx2.Timeout(config.start_s, read=config.timeout_s + config.start_s),
        trust_env=False,
    )
    await stack.enter_async_context(client)
    streams = streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_RESPONSE)
    reading, writing = await stack.enter_async_context(streams)
    into, admitted = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    await stack.enter_async_context(admitted)
    await stack.enter_async_context(_running(_forward(reading, into)))
    return admitted, writing


async def _forward(reading: Any, into: Any) -> None:
    gate = _Gate()
    async with into:
        with contextlib.suppress(anyio.BrokenResourceError):  # the session is closing
            async for item in reading:
                if not isinstance(item, Exception) and gate.admits(item.message):
                    await into.send(item)


class _Bounded(httpx2.AsyncHTTPTransport):
    """Answers of bounded size, never compressed."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for", request=request)
        response.stream = _Counted(response.stream)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for part in self._stream:
            seen += len(part)
            if seen > MAX_RESPONSE:
                raise httpx2.ReadError(f"the answer has more than {MAX_RESPONSE >> 20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def _line(error: BaseException) -> str:
    return sanitize(" ".join(str(error).split()), 300)


def _nonsense(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return _line(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return sanitize(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 300)
