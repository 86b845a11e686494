"""A real service on loopback, in a thread: what the tests of its routes, its client and its hosts talk to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory.encoders.hashing import HashingEncoder
from memory.ports import Encoder
from memory.selection.facility import warm_up
from runners.config import load_config
from runners.environment import Environment, Secret
from runners.request import ConfigRequest
from runners.service.settings import ServiceSettings

MISSING = "NO SERVE: the extra serve is not installed"
TOKEN = "a-token-of-sixteen-or-more"


@dataclass(frozen=True, slots=True)
class Running:
    """``service``: the state behind it (`runners.service.state.Service`)."""

    url: str
    service: Any
    home: Path

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


@contextmanager
def running(home: Path, encoder: Encoder | None = None, **settings: Any) -> Iterator[Running]:
    """A service until the end of the block."""
    pytest.importorskip("fastapi", reason=MISSING)
    pytest.importorskip("uvicorn", reason=MISSING)
    from runners.service.app import make_app
    from runners.service.serving import listen, make_server
    from runners.service.state import Service

    if isinstance(settings.get("token"), str):
        settings["token"] = Secret(settings["token"])
    checked = ServiceSettings(port=0, **settings)
    config = load_config(ConfigRequest(None, None, None, None, ("encoder.kind=hashing",)))
    warm_up()
    listening = listen(checked)
    ready = threading.Event()
    box: dict[str, Any] = {}

    async def serve() -> None:
        service = Service(checked, Environment(home), config, encoder or HashingEncoder(256))
        server = make_server(make_app(service))
        box.update(service=service, server=server, loop=asyncio.get_running_loop())

        async def announce() -> None:
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            ready.set()

        task = asyncio.create_task(announce())
        await server.serve([listening])
        await task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="service")
    thread.start()
    try:
        assert ready.wait(30)
        yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}", box["service"], home)
    finally:
        box["loop"].call_soon_threadsafe(box["service"].closing.set)
        box["server"].should_exit = True
        thread.join(30)
        listening.close()
        assert not thread.is_alive()
