"""The visit tool end to end: real servers on loopback, the corpus server, the cache."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load import slack
from tests.tools.search.pages import PAGES, write_jsonl
from tests.tools.visit.documents import ARTICLE, SENTENCES, pdf
from tests.tools.web.loopback import FakeResolver, Site, answer, connections, redirect, running
from tools.base import CallContext, ToolError
from tools.search.corpus import LocalCorpus
from tools.visit.cache import Document, PageCache
from tools.visit.config import VisitConfig
from tools.visit.tool import VisitArguments, VisitTool
from tools.visit.window import for_goal, places, windows
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

CALL = CallContext("s1.1", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def tool_for(site: Site, cache: Path, clock: Clock | None = None, **options: object) -> VisitTool:
    fetcher = Fetcher(FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",)), resolver=FakeResolver({}))
    return VisitTool(fetcher, cache, VisitConfig.model_validate(options), clock=clock or Clock())


async def visit(tool: VisitTool, **arguments: object) -> str:
    return (await tool.run(VisitArguments.model_validate(arguments), CALL)).text


async def test_a_long_page_in_parts_by_goal_and_by_words(tmp_path: Path) -> None:
    async with running() as site:
        site.pages["/town"] = answer(ARTICLE)
        tool = tool_for(site, tmp_path, window_chars=1500)
        url = site.url("/town")
        first = await visit(tool, url=url)
        assert first.startswith(f"[The river town]({url})\n(page 1 of ")
        assert "page=2 reads on" in first
        count = int(first.split("page 1 of ")[1].split(";")[0])
        parts = [await visit(tool, url=url, page=number) for number in range(1, count + 1)]
        assert all(any(sentence in part for part in parts) for sentence in SENTENCES)
        assert "this is the last" in parts[-1]
        assert f"no page {count + 5}" in await visit(tool, url=url, page=count + 5)
        extract = await visit(tool, url=url, goal="When was the stone bridge finished?")
        assert "finished in 1431" in extract
        assert SENTENCES[0] in extract
        assert all(len(part) < 1900 for part in [*parts, extract])
        assert '"1431" occurs 1 times' in await visit(tool, url=url, find="1431")
        assert "does not occur" in await visit(tool, url=url, find="unicorn")
        assert len([request for request in site.requests if "/town" in request]) == 1  # the rest came from the cache
        observation = await tool.run(VisitArguments(urls=[url]), CALL)
        assert [(source.url, source.title) for source in observation.sources] == [(url, "The river town")]
        await tool.aclose()


async def test_several_pages_one_of_which_fails(tmp_path: Path) -> None:
    async with running() as site:
        site.pages["/a"], site.pages["/b.pdf"] = answer("plain words", kind="text/plain"), answer(pdf("In a report"))
        site.pages["/old"] = redirect("/a")
        tool = tool_for(site, tmp_path)
        urls = [site.url("/b.pdf"), site.url("/nope"), site.url("/old")]
        observation = await tool.run(VisitArguments(urls=urls), CALL)
        assert "In a report" in observation.text
        assert f"{site.url('/nope')}\ncould not be read (not_found): no such page (HTTP 404)" in observation.text
        assert [source.url for source in observation.sources] == [site.url("/b.pdf"), site.url("/a")]
        await tool.aclose()


@pytest.mark.parametrize(
    ("path", "page", "kind"),
    [
        ("/gone", answer("", status="410 Gone"), "not_found"),
        ("/secret", answer("", status="403 Forbidden"), "http_status"),
        ("/busy", answer("", status="503 Busy"), "http_status"),
        ("/a.zip", answer(b"PK\x03\x04" + bytes(50), kind="application/zip"), "unsupported"),
        ("/fake.pdf", answer(b"%PDF-1.4 no", kind="application/pdf"), "parse"),
        ("/empty", answer("<html><script>app()</script></html>"), "parse"),
        ("/bomb", answer(gzip.compress(bytes(60_000_000)), headers=("Content-Encoding: gzip",)), "too_large"),
        ("/loop", redirect("/loop"), "limit"),
        ("/in", redirect("http://169.254.169.254/latest/"), "forbidden"),
        ("/in2", redirect("http://127.0.0.1:1/"), "forbidden"),
    ],
)
async def test_failures_are_for_the_model_to_mend(tmp_path: Path, path: str, page: bytes, kind: str) -> None:
    async with running() as site:
        site.pages[path] = page
        tool = tool_for(site, tmp_path)
        with connections() as seen, pytest.raises(ToolError) as failure:
            await visit(tool, url=site.url(path))
        assert failure.value.kind == kind
        assert set(seen) == {("127.0.0.1", site.port)}
        await tool.aclose()


async def test_the_cache_ages_records_and_replays(tmp_path: Path) -> None:
    clock = Clock()
    async with running() as site:
        site.pages["/a"] = answer("version one", kind="text/plain")
        tool = tool_for(site, tmp_path, clock)
        url = site.url("/a")
        assert "version one" in await visit(tool, url=url)
        site.pages["/a"] = answer("version two", kind="text/plain")
        clock.now += 7200
        aged = await visit(tool, url=url + "#part")
        assert "version one" in aged
        assert "as fetched on 2023-11-14" in aged
        clock.now += 86_400
        assert "version two" in await visit(tool, url=url)
        await tool.aclose()
    offline = tool_for(site, tmp_path, clock, offline=True)
    clock.now += 10 * 86_400
    with connections() as seen:
        assert "version two" in await visit(offline, url=url)
        with pytest.raises(ToolError, match="offline"):
            await visit(offline, url=url + "?other")
    assert seen == []
    await offline.aclose()


@pytest.mark.parametrize(("mode", "outcome"), [("respect", "forbidden"), ("warn", "note"), ("off", "")])
async def test_robots(tmp_path: Path, mode: str, outcome: str) -> None:
    async with running() as site:
        site.pages["/robots.txt"] = answer("User-agent: *\nDisallow: /private\n", kind="text/plain")
        site.pages["/private/a"], site.pages["/b"] = (
            answer("text a", kind="text/plain"),
            answer("text b", kind="text/plain"),
        )
        tool = tool_for(site, tmp_path, robots=mode)
        assert "text b" in await visit(tool, url=site.url("/b"))
        if outcome == "forbidden":
            with pytest.raises(ToolError, match=r"robots\.txt"):
                await visit(tool, url=site.url("/private/a"))
        else:
            text = await visit(tool, url=site.url("/private/a"))
            assert ("robots.txt" in text) == (outcome == "note")
        asked = sum("robots.txt" in request for request in site.requests)
        assert asked == (0 if mode == "off" else 1)
        await tool.aclose()


async def test_the_corpus_is_visited_like_the_web(tmp_path: Path) -> None:
    corpus = LocalCorpus.open(str(write_jsonl(tmp_path / "p.jsonl")), tmp_path / "cache")
    tool = VisitTool(Fetcher(hosts=corpus.hosts), tmp_path / "cache", VisitConfig(offline=True))
    for key, title, text in PAGES:
        observation = await tool.run(VisitArguments(urls=[f"http://corpus.local/page/{key}"]), CALL)
        assert observation.text.split("\n\n", 1)[1] == text
        assert observation.sources[0].title == title
    with pytest.raises(ToolError, match="no such page"):
        await visit(tool, url="http://corpus.local/page/nope")
    took: list[float] = []
    for _ in range(10):
        started = time.perf_counter()
        await visit(tool, url="http://corpus.local/page/p1")
        took.append(time.perf_counter() - started)
    assert sorted(took)[5] < 0.06 * slack()
    await tool.aclose()
    await corpus.aclose()


@pytest.mark.parametrize("given", [{"url": "http://a/"}, {"urls": "http://a/"}, {"urls": ["http://a/"]}])
def test_a_single_url_is_understood(given: dict[str, object]) -> None:
    assert VisitArguments.model_validate(given).urls == ["http://a/"]


@pytest.mark.parametrize(
    "given", [{}, {"urls": []}, {"urls": ["a"] * 4}, {"url": "a", "page": 0}, {"url": "a", "x": 1}]
)
def test_bad_arguments_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        VisitArguments.model_validate(given)


@given(st.text(alphabet="ab .\n。é", max_size=400), st.integers(8, 60))
def test_windows_tile_the_text(text: str, chars: int) -> None:
    cuts = windows(text, chars)
    assert "".join(text[start:end] for start, end in cuts) == text
    assert all(end - start <= chars for start, end in cuts)
    assert len(for_goal(text, "ab a", chars)) <= chars + 60


@given(st.text(alphabet="ab\n ", max_size=300), st.text(alphabet="ab ", min_size=1, max_size=4).filter(str.strip))
def test_places_are_found_when_they_are_there(text: str, wanted: str) -> None:
    flat = " ".join(text.split())
    assert bool(places(text, wanted, 5000)) == (" ".join(wanted.split()) in flat)


def test_the_cache_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    cache = PageCache(tmp_path, max_bytes=3500)
    for number in range(5):
        cache.put(f"k{number}", Document("u", "t", "x" * 1000, ("n",), float(number)))
        cache.get("k0", now=100.0 + number)
    kept = [number for number in range(5) if cache.get(f"k{number}", 200.0)]
    assert kept == [0, 3, 4]
    assert cache.get("k0", 200.0, max_age_s=10.0) is None
    cache.put("odd", Document("u", "t", "lone \ud800 surrogate", (), 300.0))
    assert cache.get("odd", 1.0) is not None
    cache.close()
    cache.file.write_bytes(b"damaged " * 1000)
    again = PageCache(tmp_path)
    assert again.get("k0", 1.0) is None
    again.close()
