"""The tools of a run, from its configuration and its inputs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory.ports import ChunkReader
from memory.records import Observation, ToolCall, ToolSpec
from memory.sanitize import sanitize
from runners.computing import open_sandbox
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import UsageFault
from tools.python.base import PythonSandbox
from tools.search.base import CorpusFault, SearchProvider
from tools.toolset import AnyTool, Toolset
from tools.visit.goal import GoalExtractor

BY_HAND = ("search", "visit", "python", "parse_file")
"""Tools that work outside a session."""
NAMED = 5
"""Files of a corpus that could not be read, named in one line of the log."""
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a person gives a run beside its configuration. ``corpus``: None searches the web."""

    corpus: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolboxRequest:
    """Everything that tools are made from. ``reader``: the session's memory; None leaves glimpse out."""

    config: RunConfig
    inputs: Inputs
    environment: Environment
    reader: ChunkReader | None = None
    progress: Callable[[int, int], None] | None = None
    provider: SearchProvider | None = None
    """Stands in for what the configuration would make: for hosts with a search of their own."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    extractor: GoalExtractor | None = None
    """Reads long pages for a goal; None ranks their passages. Whoever made it closes its completion."""
    control: tuple[AnyTool, ...] = ()
    """What the policy needs the model to be able to call (`agent.control`)."""
    python: PythonSandbox | None = None
    """Where code runs; None leaves the python tool out."""
    artefacts: Path | None = None
    """Folder for the files that the code makes; None keeps none."""
    recorded: tuple[ToolSpec, ...] | None = None
    """What the session has offered since it began; None: it begins now."""


async def open_toolbox(request: ToolboxRequest, stack: AsyncExitStack) -> Toolset:
    """The tools on offer; ``stack`` closes them. Raises UsageFault for a corpus or a file that cannot be used.

    Where files are all there is, nothing that searches or visits is offered.
    """
    provider, hosts = (None, {}) if _files_alone(request) else await _provider(request)
    tools: list[AnyTool] = []
    try:
        if provider is not None:
            tools += [_search(request, provider), _visit(request, hosts)]
        tools += _files(request)
        if request.config.backbone.kind != "embedded":
            # the embedded reader calls none of them: starting a server for it would only cost time
            tools += _python(request)
            tools += await _outside(request, stack)
        elif request.config.mcp:
            _LOGGER.warning("MCP servers are not started: the embedded backbone calls no tools of theirs")
    except BaseException:
        if provider is not None:
            await provider.aclose()
        raise
    if request.reader is not None and request.config.memory.glimpse:
        from tools.glimpse import Glimpse

        tools.append(Glimpse(request.reader))
    toolset = Toolset([*tools, *request.control], recorded=request.recorded)
    stack.push_async_callback(toolset.aclose)
    return toolset


def check_inputs(inputs: Inputs) -> None:
    """Raises UsageFault for a corpus or a file that is not there, before a session exists."""
    corpus = inputs.corpus
    if corpus is not None and not corpus.strip():
        raise UsageFault("--corpus is empty", hint="a folder, a .jsonl of pages, or pydoc:")
    if corpus is not None and corpus != "pydoc:" and not Path(corpus).exists():
        raise UsageFault(f"no such corpus: {corpus}", hint="a folder, a .jsonl of pages, or pydoc:")
    for name in inputs.files:
        if not Path(name).is_file():
            raise UsageFault(f"no such file: {name}")


async def run_one_tool(request: ToolboxRequest, call: ToolCall) -> Observation:
    """One call outside any session. Raises UsageFault when what this tool needs is not there."""
    server, separator, _ = call.name.partition("__")
    outside = bool(separator) and server in request.config.mcp
    if call.name not in BY_HAND and not outside:
        servers = [f"{name}__TOOL" for name in request.config.mcp]
        raise UsageFault(f"no tool {call.name!r} here: {', '.join([*BY_HAND, *servers])}")
    async with AsyncExitStack() as stack:
        toolset = Toolset(await (_outside(request, stack, server) if outside else _by_hand(request, call.name)))
        stack.push_async_callback(toolset.aclose)
        return (await toolset.run([call], step=1))[0]


async def _by_hand(request: ToolboxRequest, name: str) -> list[AnyTool]:
    """One tool, and no more than it needs: only a search has to have something to search."""
    if name == "python":
        tools = _python(replace(request, python=await open_sandbox(request.config, request.environment)))
        if not tools:
            raise UsageFault("the python tool is not offered here", hint="`longstride doctor` says why")
        return tools
    if name == "parse_file":
        if not request.inputs.files:
            raise UsageFault("there is no file to read", hint="give --file PATH")
        return _files(request)
    if name == "visit" and request.inputs.corpus is None:
        return [_visit(request, request.hosts)]
    provider, hosts = await _provider(request)
    return [_search(request, provider), _visit(request, hosts)]


def _files_alone(request: ToolboxRequest) -> bool:
    """Whether files were given and there is neither a corpus nor any way to search the web."""
    from runners.searching import live_providers

    search = request.config.search
    given = request.provider is not None or request.inputs.corpus is not None or search.offline
    return bool(request.inputs.files) and not given and not live_providers(search, request.environment)


async def _provider(request: ToolboxRequest) -> tuple[SearchProvider, Mapping[str, str]]:
    if request.provider is not None:
        return request.provider, request.hosts
    corpus = request.inputs.corpus
    if corpus is not None:
        from tools.search.corpus import LocalCorpus

        cache = request.environment.home / "cache" / "corpora"
        try:
            local = await asyncio.to_thread(LocalCorpus.open, corpus, cache, progress=request.progress)
        except CorpusFault as fault:
            raise UsageFault(str(fault), hint=fault.hint) from fault
        _say_what_was_left_out(await asyncio.to_thread(lambda: local.notes))
        return local, local.hosts
    from runners.searching import open_search

    return open_search(request.config.search, request.environment), {}


def _say_what_was_left_out(notes: Mapping[str, str]) -> None:
    if notes:
        named = [f"{name}: {note}" for name, note in list(notes.items())[:NAMED]]
        more = [f"and {len(notes) - NAMED:,} more"] if len(notes) > NAMED else []
        _LOGGER.warning("not, or not wholly, in the corpus: %s", sanitize("; ".join([*named, *more]), 2_000))


def _search(request: ToolboxRequest, provider: SearchProvider) -> AnyTool:
    from runners.searching import blocklist
    from tools.search.tool import SearchTool

    return SearchTool(provider, request.config.search, blocklist(request.config))


def _visit(request: ToolboxRequest, hosts: Mapping[str, str]) -> AnyTool:
    from runners.extracting import renderer
    from runners.searching import blocklist
    from tools.visit.tool import VisitTool
    from tools.web.client import Fetcher

    config = request.config
    fetcher = Fetcher(config.fetch, hosts=hosts, blocked=blocklist(config))
    return VisitTool(
        fetcher,
        request.environment.home / "cache" / "pages",
        config.visit,
        extractor=request.extractor,
        renderer=renderer(config, fetcher),
    )


def _files(request: ToolboxRequest) -> list[AnyTool]:
    if not request.inputs.files:
        return []
    from tools.files import ParseFileTool

    shown = request.config.backbone.supports_images
    return [ParseFileTool([Path(name) for name in request.inputs.files], pictures_shown=shown)]


def _python(request: ToolboxRequest) -> list[AnyTool]:
    if request.python is None:
        return []
    from tools.python.artefacts import Artefacts
    from tools.python.tool import PythonTool

    config, kept = request.config.python, None
    if request.artefacts is not None:
        kept = Artefacts(request.artefacts, max_files=config.keep_files, max_bytes=config.keep_mb << 20)
    return [PythonTool(request.python, timeout_s=config.timeout_s, artefacts=kept)]


async def _outside(request: ToolboxRequest, stack: AsyncExitStack, only: str | None = None) -> list[AnyTool]:
    """The tools of the MCP servers, or of one of them."""
    configs = {name: one for name, one in request.config.mcp.items() if only in (None, name)}
    if not configs:
        return []
    from runners.outside import open_servers

    return [*await open_servers(configs, request.environment, stack, request.recorded)]
