"""What ``longstride doctor`` looks at: whether this machine and this configuration can run, and how well."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from agent.backbones.factory import base_urls, make_backbone
from agent.errors import AgentFault
from memory.encoders.factory import make_encoder
from memory.errors import MemoryFault
from memory.records import JsonValue
from memory.store.postgres import session_names
from runners.computing import NOT_OFFERED, WHY, described, open_sandbox, unavailable
from runners.config import RunConfig
from runners.environment import KEYS, SETTINGS, STORE, Environment
from runners.errors import RunnerFault
from runners.outside import look_at
from runners.searching import VARIABLES, blocklist, live_providers, open_search, provider_line
from runners.stores import default_database
from tools.mcp.config import McpFault
from tools.python.base import UNSAFE
from tools.visit.browser import find_chromium

State: TypeAlias = Literal["ok", "warn", "fail"]
MIN_DISK_MB = 500
EXTRAS = {
    "bge": "sentence_transformers",
    "browser": "playwright",
    "files": "openpyxl",
    "local": "xllamacpp",
    "mcp": "mcp",
    "plots": "matplotlib",
    "postgres": "psycopg",
    "ray": "ray",
    "search": "ddgs",
    "serve": "fastapi",
}
"""Extra -> the module that shows it is installed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``warn``: works, with less; ``fail``: a run cannot work. ``hint``: what a person can do."""

    name: str
    state: State
    detail: str
    hint: str = ""


def check_machine(environment: Environment) -> Iterator[Check]:
    """Interpreter, SQLite, disk, home folder, extras and keys."""
    yield _python()
    yield _sqlite()
    yield _home(environment.home)
    yield _disk(environment.home)
    for extra, module in EXTRAS.items():
        if importlib.util.find_spec(module):
            yield Check(f"extra {extra}", "ok", f"{module} is installed")
        else:
            yield Check(f"extra {extra}", "warn", "not installed", f"pip install 'longstride[{extra}]'")
    for name in KEYS:
        if environment.secret(name):
            yield Check(name, "ok", f"set: {environment.secrets[name]!r}")
    for name in SETTINGS:
        value = environment.settings.get(name)
        if value:
            yield Check(name, "ok", value)
    if environment.given(STORE):
        yield guarded(STORE, lambda: _database(environment), (MemoryFault, RunnerFault))


def check_config(config: RunConfig, environment: Environment) -> Iterator[Check]:
    """What the configuration names; nothing is sent to anybody but to its MCP servers, which are started."""
    yield Check("policy", "ok", f"{config.policy.variant or config.policy.name} (profile {config.profile})")
    yield guarded("backbone", lambda: _backbone(config, environment), (AgentFault,))
    yield guarded("encoder", lambda: _encoder(config, environment), (MemoryFault,))
    yield guarded("search", lambda: _search(config, environment), (RunnerFault,))
    yield _browser(config)
    yield guarded("python tool", lambda: _sandbox(config, environment), (RunnerFault,))
    for name in config.mcp:
        yield guarded(f"mcp {name}", partial(_server, name, config, environment), (McpFault,))


def guarded(name: str, check: Callable[[], Check], faults: tuple[type[Exception], ...]) -> Check:
    """A check that fails by name when what it tries raises one of ``faults``."""
    try:
        return check()
    except faults as fault:
        return Check(name, "fail", " ".join(str(fault).split()), str(getattr(fault, "hint", "")))


def checks_json(checks: list[Check]) -> dict[str, JsonValue]:
    """The report of ``doctor --json``."""
    return {"ok": all(check.state != "fail" for check in checks), "checks": [asdict(check) for check in checks]}


def _database(environment: Environment) -> Check:
    address = default_database(environment)
    sessions = asyncio.run(session_names(address)) if address else []
    return Check(STORE, "ok", f"{address}, reached: sessions there: {len(sessions)}")


def _backbone(config: RunConfig, environment: Environment) -> Check:
    variables = environment.variables()
    asyncio.run(make_backbone(config.backbone, variables).aclose())
    if config.backbone.kind == "embedded" and not config.backbone.reader:
        return Check("backbone", "ok", f"embedded (no LLM), dialect {config.dialect}")
    if config.backbone.kind in ("embedded", "local"):
        detail = config.backbone.model or f"extractive policy, answers read by {config.backbone.reader}"
        return Check("backbone", "ok", f"{detail}, in this process, dialect {config.dialect}")
    servers = ", ".join(base_urls(config.backbone, variables)) or "the provider's own server"
    model = f"{config.backbone.model} through {config.backbone.kind} at {servers}"
    return Check("backbone", "ok", f"{model}, window {config.backbone.window:,}, dialect {config.dialect}")


def _encoder(config: RunConfig, environment: Environment) -> Check:
    """Loads it: a model that is not here yet is downloaded, as a run would do."""
    encoder = make_encoder(config.encoder, api_key=environment.secret("OPENAI_API_KEY"))
    length = float(np.linalg.norm(encoder.encode_query("a test")))
    state: State = "ok" if abs(length - 1) < 0.01 else "fail"
    return Check("encoder", state, f"{encoder.id}, {encoder.dim} dimensions, window {encoder.max_tokens} tokens")


def _search(config: RunConfig, environment: Environment) -> Check:
    """The providers that a run without a corpus would ask; nobody is asked now."""
    blocklist(config)
    if config.search.offline:
        return Check("search", "ok", "offline: recorded searches only")
    chosen = live_providers(config.search, environment)
    if not chosen:
        return Check("search", "warn", "no web search: a run needs --corpus", f"set one of {VARIABLES}")
    asyncio.run(open_search(config.search, environment).aclose())
    return Check("search", "ok", ", then ".join(provider_line(one, environment) for one in chosen))


def _browser(config: RunConfig) -> Check:
    found = find_chromium(config.visit.browser_path)
    if found is None:
        state: State = "fail" if config.visit.browser == "auto" else "warn"
        return Check("browser", state, "no Chromium: pages that need JavaScript show no text", "install chromium")
    used = "renders pages without text" if config.visit.browser == "auto" else "not used (visit.browser: off)"
    return Check("browser", "ok", f"{found}, {used}")


def _sandbox(config: RunConfig, environment: Environment) -> Check:
    """How code would be isolated; on this machine that is tried, a service is not asked."""
    if not config.python.enabled:
        return Check("python tool", "ok", "off (python.enabled)")
    sandbox = asyncio.run(open_sandbox(config, environment))
    if sandbox is None:
        return Check("python tool", "warn", f"{NOT_OFFERED}: {unavailable(config)}", WHY)
    asyncio.run(sandbox.aclose())
    how = described(sandbox)
    unsafe = how.startswith(UNSAFE)
    hint = "python.unsafe_python is on, and nothing here isolates code" if unsafe else ""
    return Check("python tool", "warn" if unsafe else "ok", how if unsafe else f"isolation {how}", hint)


def _server(name: str, config: RunConfig, environment: Environment) -> Check:
    found = asyncio.run(look_at(name, config.mcp[name], environment))
    if config.backbone.kind == "embedded":
        return Check(f"mcp {name}", "warn", f"{found}; not used", "the embedded backbone calls no outside tools")
    return Check(f"mcp {name}", "ok" if found != "no tools" else "warn", found)


def _python() -> Check:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}: {sys.executable}"
    return Check("python", "ok" if sys.version_info >= (3, 11) else "fail", detail)


def _sqlite() -> Check:
    """FTS5 carries the search over a corpus; its trigram tokenizer the search in CJK text."""
    detail = f"SQLite {sqlite3.sqlite_version}"
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(body)")
        connection.execute("CREATE VIRTUAL TABLE grams USING fts5(body, tokenize='trigram')")
    except sqlite3.OperationalError as fault:
        return Check("sqlite", "fail", f"{detail}: {fault}", "use a Python whose SQLite has FTS5, 3.34 or later")
    finally:
        connection.close()
    return Check("sqlite", "ok", f"{detail} with FTS5 and trigrams")


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _home(home: Path) -> Check:
    folder = _existing(home)
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return Check("home", "fail", f"{home}: {folder} cannot be written", "set LONGSTRIDE_HOME to another folder")
    return Check("home", "ok", f"{home}{'' if home.exists() else ' (made by the first run)'}")


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(_existing(home)).free // 1_000_000
    hint = "" if free >= MIN_DISK_MB else "make room, or set LONGSTRIDE_HOME to another disk"
    return Check("disk", "warn" if hint else "ok", f"{free:,} MB free", hint)
