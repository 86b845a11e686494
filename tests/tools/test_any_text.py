"""Anything at all as an argument, a hit, a page or a file, through the tools as a run has them: always one observation,
storable as it is, and never an exception (half characters, NUL, controls, NaN, numbers without end, deep lists)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.ingest import clean_arguments
from memory.records import ErrorKind, Observation, ToolCall
from memory.sanitize import sanitize
from tests.faults.poison import PIECES
from tests.tools.test_glimpse import Reader
from tests.tools.web.loopback import FakeResolver, answer, connections, running
from tools.files import ParseFileTool
from tools.glimpse import Glimpse
from tools.search.base import Hit
from tools.search.tool import SearchTool
from tools.toolset import AnyTool, Toolset
from tools.visit.config import VisitConfig
from tools.visit.tool import VisitTool
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

ANY = st.text(st.characters(exclude_categories=()), max_size=30) | st.sampled_from(PIECES)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -1, 0, float("nan"), float("inf")])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | ANY | st.sampled_from(["[" * 100_000, '["\\ud800", 1]', "c1-c9", "c1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["queries", "query", "urls", "url", "goal", "page", "find", "file", "chunk_id", "part", "code"])
ARGUMENTS = st.dictionaries(NAMES | ANY, JSON, max_size=4)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class Found:
    """A provider whose every result is hostile."""

    name = "found"
    hits: tuple[Hit, ...] = ()

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        return list(self.hits)

    async def aclose(self) -> None:
        pass


def storable(observation: Observation) -> None:
    """It can be kept, sent and shown, byte for byte."""
    assert observation.error is None or observation.error in get_args(ErrorKind)
    for text in (observation.text, observation.tool, *(x for s in observation.sources for x in (s.url, s.title))):
        assert sanitize(text) == text
        text.encode()
    assert observation.text.strip() and "\x00" not in observation.text


async def one(tool: AnyTool, name: str, arguments: dict[str, Any]) -> Observation:
    (observation,) = await Toolset([tool]).run([ToolCall("s1.0", name, arguments)], step=5)
    storable(observation)
    return observation


@QUICK
@given(ARGUMENTS, st.sampled_from(["search", "visit", "glimpse", "parse_file"]) | ANY)
async def test_any_arguments(tmp_path: Path, arguments: dict[str, Any], name: str) -> None:
    (tmp_path / "a.txt").write_text("hello")
    tools: list[AnyTool] = [
        SearchTool(Found()), VisitTool(Fetcher(resolver=FakeResolver({})), tmp_path / "pages"), Glimpse(Reader()),
        ParseFileTool([tmp_path / "a.txt"]),
    ]  # fmt: skip
    with connections() as seen:
        toolset = Toolset(tools)
        (observation,) = await toolset.run([ToolCall("s1.0", name, arguments)], step=5)
        await toolset.aclose()
    storable(observation)
    assert seen == []


@QUICK
@given(st.lists(st.builds(Hit, ANY, ANY.map("http://x.test/".__add__) | ANY, ANY, ANY, ANY), max_size=3), ANY)
async def test_any_hits(hits: list[Hit], query: str) -> None:
    provider = Found()
    provider.hits = tuple(hits)
    await one(SearchTool(provider), "search", {"queries": [query or "q"]})


@settings(QUICK, max_examples=15)
@given(ANY, ANY, st.sampled_from(["text/plain", "text/html", "application/json", "text/csv", ""]), ANY, st.binary())
async def test_any_page(tmp_path: Path, body: str, title: str, kind: str, goal: str, noise: bytes) -> None:
    html = f"<html><title>{title}</title><p>{body} and a few words more</p>" if kind == "text/html" else body
    async with running() as site:
        site.pages["/a"] = answer(html.encode("utf-8", "surrogatepass") + noise, kind=kind)
        fetcher = Fetcher(FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",)), resolver=FakeResolver({}))
        tool = VisitTool(fetcher, tmp_path / "pages", VisitConfig(robots="off", max_age_s=0))
        await one(tool, "visit", {"urls": [site.url("/a")], "goal": goal, "find": goal[:100]})
        await tool.aclose()


@settings(QUICK, max_examples=25)
@given(ANY, st.binary(max_size=100), st.sampled_from(["a.txt", "b.json", "c.csv", "d.md", "e.ipynb", "f.xml"]), ANY)
async def test_any_file(tmp_path: Path, text: str, noise: bytes, name: str, find: str) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass") + noise)
    tool = ParseFileTool([tmp_path / name])
    await one(tool, "parse_file", {"file": name, "find": find})
    await tool.aclose()


@QUICK
@given(ARGUMENTS)
def test_any_arguments_can_be_kept(arguments: dict[str, Any]) -> None:
    kept = clean_arguments(arguments)
    assert clean_arguments(kept) == kept
    json.dumps(kept, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000])
async def test_a_deep_text_is_no_list(text: str) -> None:
    assert (await one(SearchTool(Found()), "search", {"queries": text})).error in (None, "invalid_arguments")
