"""The SearXNG adapter against an emulator of its JSON interface on loopback."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest

from tests.tools.web.loopback import Site, answer, running
from tools.base import ToolError
from tools.search.searxng import Searxng, SearxngConfig


def results(first: int, count: int) -> bytes:
    found = [
        {"url": f"https://e.org/{n}", "title": f"T{n}", "content": None, "engine": "x"}
        for n in range(first, first + count)
    ]
    if found:
        found[0]["publishedDate"] = "2024-05-06T07:08:09"
    return answer(json.dumps({"query": "q", "results": found, "unresponsive_engines": []}), kind="application/json")


def opened(site: Site) -> Searxng:
    return Searxng(SearxngConfig(url=site.url("/").rstrip("/") + "/"))


def query_of(request: str) -> dict[str, list[str]]:
    return parse_qs(request.split(" ")[1].split("?")[1])


async def test_pages_are_joined_until_there_are_enough() -> None:
    async with running() as site:
        path = "/search?q=dark+%26+deep&format=json&language=de&time_range=year&pageno="
        site.pages[f"{path}1"], site.pages[f"{path}2"] = results(0, 4), results(3, 4)
        provider = opened(site)
        hits = await provider.search("dark & deep", 6, lang="de", since="2001-01-01")
        assert [hit.url[-1] for hit in hits] == ["0", "1", "2", "3", "4", "5"]
        assert (hits[0].date, hits[0].source, hits[0].snippet) == ("2024-05-06", "searxng", "")
        assert query_of(site.requests[0])["q"] == ["dark & deep"]
        await provider.aclose()


async def test_no_more_results_end_the_asking() -> None:
    async with running() as site:
        path = "/search?q=q&format=json&language=all&pageno="
        site.pages[f"{path}1"], site.pages[f"{path}2"] = results(0, 2), results(0, 2)
        provider = opened(site)
        assert len(await provider.search("q", 9)) == 2
        assert len(site.requests) == 2
        await provider.aclose()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer("no json here", status="403 Forbidden"), "http_status"),
        (answer("slow", status="429 Too Many Requests"), "limit"),
        (answer("<html>error page</html>"), "parse"),
        (answer('{"results": [{"title": "no url"}]}'), "parse"),
        (answer("", status="500 Oops"), "http_status"),
        (b"", "network"),
    ],
)
async def test_failures_are_told_apart(reply: bytes, kind: str) -> None:
    async with running() as site:
        site.pages["/search?q=q&format=json&language=all&pageno=1"] = reply
        provider = opened(site)
        with pytest.raises(ToolError) as failure:
            await provider.search("q", 3)
        assert failure.value.kind == kind
        await provider.aclose()
