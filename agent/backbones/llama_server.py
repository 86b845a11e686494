"""llama.cpp's own server inside this process, on loopback: one per weights file, shared by whoever asks for it.

Nothing else on the machine can use it: it answers only to a key made when it starts.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import ModelMissing

MAX_THREADS = 8
BATCH = 512
"""Prompt tokens that are computed at once; a larger batch gains nothing on a CPU."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """``window``: tokens of one request, input and output. ``threads`` None: half of the cores, at most 8."""

    weights: Path
    window: int
    threads: int | None = None


class LlamaServer:
    """A running server. ``url``: its root, without ``/v1``."""

    def __init__(self, options: ServerOptions) -> None:
        """Loads the weights (seconds). Raises ModelMissing without the library, or for a file that is no model."""
        check_library()
        import xllamacpp

        self.key = secrets.token_urlsafe(24)
        try:
            self._server: Any = xllamacpp.Server(_parameters(xllamacpp, options, self.key))
        except RuntimeError as fault:
            raise ModelMissing(
                f"{options.weights} cannot be loaded: {fault}", hint="it must be a GGUF file; pull it again"
            ) from fault
        self.url = str(self._server.listening_address)

    def close(self) -> None:
        """Frees the memory and the port."""
        self._server = None


_lock = threading.Lock()
_running: dict[ServerOptions, tuple[LlamaServer, int]] = {}


def acquire(options: ServerOptions) -> LlamaServer:
    """The server of these options, started when nobody uses it yet. Blocking. Each call needs a `release`."""
    with _lock:
        server, users = _running.get(options) or (LlamaServer(options), 0)
        _running[options] = (server, users + 1)
        return server


def release(options: ServerOptions) -> None:
    """One user less; the last one closes it."""
    with _lock:
        server, users = _running[options]
        if users > 1:
            _running[options] = (server, users - 1)
            return
        del _running[options]
        server.close()


def check_library() -> None:
    """Raises ModelMissing when what runs the weights is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelMissing(
            "local models need llama.cpp, and it is not installed", hint="pip install 'longstride[local]'"
        )


def weights_file(model: str, home: str) -> Path:
    """The GGUF file of a pulled model, or the file that ``model`` itself names. Raises ModelMissing."""
    if model.endswith(".gguf"):
        path = Path(model).expanduser()
        if not path.is_file():
            raise ModelMissing(f"no such model file: {model}", hint="give the path of a GGUF file, or a model's name")
        return path
    folder = Path(home, "models", model) if home and model and Path(model).name == model else None
    found = sorted(folder.glob("*.gguf")) if folder else []
    if not found:
        raise ModelMissing(f"the local model {model!r} is not here", hint=f"longstride models pull {model}")
    return found[0]


def _parameters(xllamacpp: Any, options: ServerOptions, key: str) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(options.weights)
    parameters.n_ctx = options.window
    parameters.n_parallel = 1
    parameters.n_batch = parameters.n_ubatch = BATCH
    threads = options.threads or max(1, min(MAX_THREADS, (os.cpu_count() or 2) // 2))
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.n_threads_http = 2
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.ui = parameters.endpoint_slots = parameters.warmup = False
    parameters.verbosity = -1
    return parameters
