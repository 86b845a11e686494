"""Running the service: the encoder loaded, kernels compiled, texts warmed, then the socket."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any

from memory.errors import MemoryFault
from memory.selection.facility import warm_up
from memory.store.address import Address
from memory.store.postgres import session_names
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import UsageFault
from runners.parts import cached_encoder
from runners.service.door import Door
from runners.service.passes import Passes
from runners.service.settings import ServiceSettings, check_bind

INSTALL = "pip install 'longstride[serve]'"
_GRACE_S = 5
_KEEP_S = 30
_BATCH = 256
_WATCH_S = 0.05
_log = logging.getLogger(__name__)


def check_extra() -> None:
    """Raises UsageFault when the extra is missing."""
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise UsageFault("the extra serve is not installed", hint=INSTALL)


async def serve(
    settings: ServiceSettings,
    environment: Environment,
    config: RunConfig,
    *,
    prewarm: Iterable[str] = (),
    passes: Passes | None = None,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal asks for the end. ``ready`` is told the address once it answers.

    Raises UsageFault for a bind that is refused, or not to be had, EncoderFault, and what is wrong with a database
    that waiting does not mend: NotStored, StoreFault.
    """
    check_extra()
    check_bind(settings)
    from runners.service.app import make_app
    from runners.service.state import Service

    async with AsyncExitStack() as stack:
        listening = listen(settings)
        stack.callback(listening.close)
        if settings.database is not None:
            await _reach(settings.database)
        encoder = await asyncio.to_thread(cached_encoder, config, environment, stack)
        service = Service(settings, environment, config, encoder, passes)
        await asyncio.to_thread(warm_up)
        await asyncio.to_thread(service.selector.prewarm, ["warm"])
        texts = iter(prewarm)
        while batch := list(islice(texts, _BATCH)):
            await service.prewarm(batch)
        server = make_server(make_app(service))
        watching = asyncio.create_task(_watch(server, service.closing, lambda: ready(_url(listening))))
        try:
            await server.serve([listening])
        finally:
            watching.cancel()


async def _reach(database: Address) -> None:
    """Look into the database once. One that is away is not waited for: sessions are there as soon as it is."""
    try:
        await session_names(database)
    except MemoryFault as fault:
        if not fault.retryable:
            raise
        _log.warning("%s; until it answers, what is asked of sessions is refused with 503", fault)


def make_server(app: Any) -> Any:
    """The server (of uvicorn) of an application; it has no socket yet."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            http=Door,
            ws="none",
            lifespan="on",
            timeout_keep_alive=_KEEP_S,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=64 * 1024,
        )
    )


async def _watch(server: object, closing: asyncio.Event, ready: Callable[[], None]) -> None:
    """Say when it is ready; end streams, which wait for nothing else, as soon as the end is asked for. The server has
    flags for both, and no events."""
    while not getattr(server, "started", False):  # noqa: ASYNC110
        await asyncio.sleep(_WATCH_S)
    ready()
    while not getattr(server, "should_exit", False):  # noqa: ASYNC110
        await asyncio.sleep(_WATCH_S)
    closing.set()


def listen(settings: ServiceSettings) -> socket.socket:
    """The socket to serve on. Raises UsageFault."""
    host = settings.host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as fault:
        raise UsageFault(f"{host} is no address of this machine: {fault.strerror or fault}") from fault
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # asyncio sets it only where a socket names its protocol; without it an answer's body waits for the client's
        # delayed acknowledgement of its head: 40 ms
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        listening.listen(256)
    except OSError as fault:
        listening.close()
        raise UsageFault(f"cannot listen on {host}:{settings.port}: {fault.strerror or fault}") from fault
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
