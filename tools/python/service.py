"""HTTP to a service that runs code: bounded in time and size, without redirects and proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from tools.python.base import MIB, SandboxFault

if TYPE_CHECKING:
    import httpx

MAX_ANSWER = 16 * MIB
MAX_ERROR = 64_000
CONNECT_S = 10.0
SHORTEST_SECRET = 6
"""Of the headers' values that an error does not repeat; a shorter one would cut holes into ordinary text."""


class NotFound(SandboxFault):
    """HTTP 404: what was asked for is gone."""


class Service:
    """One server. ``name``: for messages. ``headers`` go with every request."""

    def __init__(self, name: str, base: str, headers: Mapping[str, str] | None = None) -> None:
        """Raises SandboxFault for an address that is none."""
        if not base.startswith(("http://", "https://")):
            raise SandboxFault(f"the address of {name} must begin with http:// or https://")
        self._name = name
        self._base = base.rstrip("/")
        self._secrets = [value for value in (headers or {}).values() if len(value) >= SHORTEST_SECRET]
        self._headers = {"Accept-Encoding": "identity", **(headers or {})}
        self._client: httpx.AsyncClient | None = None

    async def ask(self, method: str, path: str, body: object = None, *, timeout_s: float = 30.0) -> bytes:
        """The answer whole. Raises SandboxFault, NotFound, TimeoutError."""
        async with asyncio.timeout(timeout_s):
            async with aclosing(self.parts(method, path, body)) as parts:
                return b"".join([part async for part in parts])

    async def parts(self, method: str, path: str, body: object = None) -> AsyncGenerator[bytes, None]:
        """The answer as it comes, `MAX_ANSWER` bytes at most. Raises SandboxFault, NotFound. Sets no limit of time."""
        import httpx

        size = 0
        try:
            async with self._open().stream(method, self._base + path, json=body) as response:
                if response.headers.get("content-encoding", "identity").lower() != "identity":
                    raise SandboxFault(f"{self._name} compressed its answer, which nobody asked for")
                if not response.is_success:
                    raise await self._refused(response)
                async for part in response.aiter_raw():
                    size += len(part)
                    if size > MAX_ANSWER:
                        raise SandboxFault(f"the answer of {self._name} is larger than {MAX_ANSWER // MIB} MiB")
                    yield part
        except httpx.ConnectError as error:
            raise SandboxFault(f"{self._name} cannot be reached at {self._base}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SandboxFault(f"{self._name} broke off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _refused(self, response: httpx.Response) -> SandboxFault:
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > MAX_ERROR:
                break
        status = response.status_code
        if status == 404:
            return NotFound(f"{self._name} answered HTTP 404")
        if status in (401, 403):
            return SandboxFault(f"{self._name} refuses the key (HTTP {status})")
        if status == 429:
            return SandboxFault(f"{self._name} limits the rate of calls (HTTP 429): wait before the next one")
        text = " ".join(body.decode("utf-8", "replace").split())
        for value in self._secrets:
            text = text.replace(value, "***")
        told = "" if not text or text.startswith("<") else f": {text[:200]}"
        return SandboxFault(f"{self._name} answered HTTP {status}{told}")

    def _open(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=CONNECT_S),
                # a connection that went stale would fail a call that may not be repeated
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,
                follow_redirects=False,
                headers=self._headers,
            )
        return self._client
