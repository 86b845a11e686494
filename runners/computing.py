"""Where a session's Python runs: the sandbox that its configuration asks for and this machine allows."""

from __future__ import annotations

import logging
import time

from memory.ports import ChunkStore
from memory.stored import Event
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import UsageFault
from tools.python.base import PythonSandbox, SandboxFault, isolation
from tools.python.config import PythonConfig
from tools.python.tool import PythonTool

EVENT = "python"
NOT_OFFERED = "not offered"
_ADDRESS = {"sandbox_fusion": "SANDBOX_FUSION_ENDPOINT", "e2b": "E2B_API_URL or E2B_SANDBOX_URL"}
WHY = "install bubblewrap, or use Linux 6.2 or later; docs/python.md"
_LOGGER = logging.getLogger(__name__)


async def open_sandbox(config: RunConfig, environment: Environment, *, resumed: bool = False) -> PythonSandbox | None:
    """What runs the code, not started; None when the tool is off, or nothing here isolates as asked.

    ``resumed``: the session has computed before, and what it computed with is gone. Raises UsageFault where a service
    is asked for and its address or key is missing, or no address.
    """
    python = config.python
    if not python.enabled:
        return None
    try:
        return await _open(python, environment, resumed)
    except SandboxFault as fault:
        raise UsageFault(
            f"python.where is {python.where}: {fault}", hint=f"set {_ADDRESS.get(python.where, 'python.where')} again"
        ) from fault


async def _open(python: PythonConfig, environment: Environment, resumed: bool) -> PythonSandbox | None:
    """Raises UsageFault, and SandboxFault for the address of a service that is none."""
    if python.where == "local":
        from tools.python.local import detect_sandbox

        level = None if python.level == "auto" else python.level
        return await detect_sandbox(level, unsafe=python.unsafe_python, resumed=resumed)
    if python.where == "sandbox_fusion":
        from tools.python.fusion import FusionSandbox

        endpoint = environment.setting("SANDBOX_FUSION_ENDPOINT")
        if not endpoint:
            raise UsageFault("python.where is sandbox_fusion", hint="set SANDBOX_FUSION_ENDPOINT to its address")
        return FusionSandbox(endpoint, resumed=resumed)
    from tools.python.e2b import E2bAccess, E2bSandbox

    key = environment.secret("E2B_API_KEY")
    if not key:
        raise UsageFault("python.where is e2b", hint="set E2B_API_KEY")
    api, sandbox = environment.setting("E2B_API_URL") or "", environment.setting("E2B_SANDBOX_URL") or ""
    return E2bSandbox(E2bAccess(key, api, sandbox), resumed=resumed)


async def session_sandbox(config: RunConfig, environment: Environment, store: ChunkStore) -> PythonSandbox | None:
    """The same for a session, which keeps on record how its code was isolated, each time it was opened."""
    if config.backbone.kind == "embedded":
        return None  # it computes nothing: starting a sandbox for it would only cost time
    resumed = await store.last_step() > 0 and any(PythonTool.name in facts.tools for facts in await store.facts())
    sandbox = await open_sandbox(config, environment, resumed=resumed)
    if sandbox is None and config.python.enabled:
        _LOGGER.warning("the python tool is not offered: %s (%s)", unavailable(config), WHY)
    await store.add_event(Event(EVENT, time.time(), {"isolation": described(sandbox)}))
    return sandbox


def described(sandbox: PythonSandbox | None) -> str:
    """For reports and records."""
    return NOT_OFFERED if sandbox is None else isolation(sandbox)


def unavailable(config: RunConfig) -> str:
    """Why nothing was found."""
    if config.python.level == "auto":
        return "nothing on this machine isolates it"
    return f"this machine cannot isolate it at python.level {config.python.level}"
