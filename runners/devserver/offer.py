"""The test servers as ``longstride dev-server`` offers them: started together, each with how to point a run at it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from memory.records import Reply, StopReason, ToolCall
from runners.devserver.hostile_web import HostileWeb
from runners.devserver.model_server import ModelServer, WireRequest
from runners.devserver.obedient import Obedient
from runners.devserver.sandbox_emulator import SandboxEmulator
from runners.devserver.search_emulator import SearchEmulator
from runners.devserver.wire import Turn
from runners.errors import UsageFault
from tools.python.base import MIB, Limits
from tools.python.local import LocalSandbox, detect_sandbox
from tools.search.base import CorpusFault, Hit
from tools.search.corpus import LocalCorpus
from tools.search.server import CORPUS_HOST

Name: TypeAlias = Literal["model", "search", "hostile", "sandbox"]
NAMES: tuple[Name, ...] = ("model", "search", "hostile", "sandbox")
UNNAMED: tuple[Name, ...] = NAMES[:3]
"""What is started when none is named: they work on any machine."""
_UNSCRIPTED = "I am a scripted model without a script: start me with --script FILE."


@dataclass(frozen=True, slots=True)
class Offered:
    """A running server. ``environment``: variables to set; ``options``: for ``-c`` of a run."""

    name: Name
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: dict[str, JsonValue] = {}


class _Line(BaseModel):
    """One turn of a script file. The rest is as in `wire.Turn`."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    reasoning: str = ""
    tool_calls: list[_Call] = []
    stop_reason: StopReason | None = None
    status: int = Field(default=200, ge=200, le=599)
    error: str = ""
    error_type: str = "api_error"
    retry_after: str = ""
    cut_after: int | None = Field(default=None, ge=0)
    hang_after: int | None = Field(default=None, ge=0)
    delay_s: float = Field(default=0.0, ge=0)
    drip_s: float = Field(default=0.0, ge=0)
    end: bool = True


def read_script(path: Path) -> list[Turn]:
    """Turns from a JSONL file: a line is a string (what the model says) or an object. Raises UsageFault."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageFault(f"the script {path} cannot be read") from fault
    turns = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            turns.append(_turn(_Line.model_validate({"text": value} if isinstance(value, str) else value)))
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            raise UsageFault(f"{path}:{number}: {where}: {first['msg']}") from fault
        except (ValueError, RecursionError) as fault:
            raise UsageFault(f"{path}:{number}: not JSON") from fault
    if not turns:
        raise UsageFault(f"the script {path} holds no turns")
    return turns


def open_servers(
    names: Sequence[Name],
    stack: ExitStack,
    cache: Path,
    *,
    corpus: str = "pydoc:",
    script: Path | None = None,
    obedient: bool = False,
    port: int = 0,
) -> list[Offered]:
    """Start them; ``stack`` stops them. ``port``: of the first, the others follow; 0: any free ones. ``obedient``: the
    model does what texts order (`Obedient`), instead of a script.

    Raises UsageFault for a bad script or corpus, or a port that is taken.
    """
    offered = []
    for place, name in enumerate(names):
        at = port + place if port else 0
        try:
            if name == "model":
                offered.append(_model(stack, script, obedient, at))
            elif name == "search":
                offered.append(_search(stack, cache, corpus, at))
            elif name == "hostile":
                offered.append(_hostile(stack, at))
            else:
                offered.append(_sandbox(stack, at))
        except (OSError, OverflowError) as fault:
            raise UsageFault(f"port {at} cannot be used for the {name} server ({fault})") from fault
    return offered


def _model(stack: ExitStack, script: Path | None, obedient: bool, port: int) -> Offered:
    def unscripted(request: WireRequest) -> Turn:
        return Turn(Reply(_UNSCRIPTED))

    says = Obedient() if obedient else read_script(script) if script else unscripted
    server = ModelServer(says, port=port, allow_unused=True)
    stack.callback(server.start().stop)
    variables = {"OPENAI_BASE_URL": f"{server.url}/v1", "ANTHROPIC_BASE_URL": server.url}
    return Offered("model", server.url, variables, (f"backbone.model={server.model}",))


def _search(stack: ExitStack, cache: Path, spec: str, port: int) -> Offered:
    try:
        corpus = LocalCorpus.open(spec, cache)
    except CorpusFault as fault:
        raise UsageFault(str(fault), hint=fault.hint) from fault
    stack.callback(lambda: asyncio.run(corpus.aclose()))
    pages = corpus.hosts[CORPUS_HOST]

    def find(query: str, n: int) -> list[Hit]:
        """With addresses that can be visited from another process."""
        hits = asyncio.run(corpus.search(query, n))
        moved = [hit.url.replace(f"//{CORPUS_HOST}/", f"//{pages}/", 1) for hit in hits]
        return [Hit(hit.title, url, hit.snippet, hit.date) for hit, url in zip(hits, moved, strict=True)]

    emulator = SearchEmulator(find, port=port)
    stack.callback(emulator.start().stop)
    url = emulator.url("").rstrip("/")
    return Offered("search", url, emulator.environment, (f"fetch.allow_hosts=[{pages}]",))


def _hostile(stack: ExitStack, port: int) -> Offered:
    web = HostileWeb(port).start()
    stack.callback(web.stop)
    own = f"127.0.0.1:{web.port}"
    return Offered("hostile", f"http://{own}/", {}, (f"fetch.allow_hosts=[{own}]",))


def _sandbox(stack: ExitStack, port: int) -> Offered:
    """Never without isolation: what is sent to it is anybody's code."""
    found = asyncio.run(detect_sandbox())
    if found is None:
        raise UsageFault("nothing on this machine isolates code", hint="`longstride doctor` says more")
    mechanism = found.mechanism
    limits = Limits(output=32 * MIB, flood=64 * MIB)
    emulator = SandboxEmulator(lambda: LocalSandbox(mechanism, limits=limits), port=port)
    stack.callback(emulator.start().stop)
    return Offered("sandbox", emulator.url, emulator.environment, ("python.where=sandbox_fusion",))


def _turn(line: _Line) -> Turn:
    calls = tuple(ToolCall(f"call_{n}", call.name, call.arguments) for n, call in enumerate(line.tool_calls))
    stop = line.stop_reason or ("tool_calls" if calls else "end")
    return Turn(
        Reply(line.text, line.reasoning, calls, stop),
        status=line.status,
        error=line.error,
        error_type=line.error_type,
        retry_after=line.retry_after,
        cut_after=line.cut_after,
        hang_after=line.hang_after,
        delay_s=line.delay_s,
        drip_s=line.drip_s,
        end=line.end,
    )
