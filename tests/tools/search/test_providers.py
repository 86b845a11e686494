"""Every live provider against an emulator of its interface, and what goes wrong with them (row F72)."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runners.devserver.search_emulator import Fault, SearchEmulator
from tests.tools.web.loopback import connections
from tools.base import CallContext, ToolError
from tools.search.base import Hit, ProviderRefused, SearchProvider
from tools.search.chain import SearchChain
from tools.search.config import SearchConfig
from tools.search.providers import Access, HttpProvider
from tools.search.recorded import RecordedSearch
from tools.search.shapes import NAMES, SHAPES
from tools.search.tool import SearchArguments, SearchTool
from tools.web.blocklist import Blocklist

KEY = "canary-key-5f1a"
CALL = CallContext("s1.1", 1)
ALL = [
    Hit(f"Title {n}", f"https://site{n}.test/page?b=2&a=1", f"Snippet {n}", f"2024-05-{n % 28 + 1:02}")
    for n in range(250)
]


def find(query: str, n: int) -> Sequence[Hit]:
    if "nothing" in query:
        return []
    if "twice" in query:
        return [ALL[0], Hit("again", "https://SITE0.test/page?a=1&b=2&utm_source=x#part"), *ALL[1:3]][:n]
    return ALL[:n]


@pytest.fixture
def emulator() -> Iterator[SearchEmulator]:
    with SearchEmulator(find, key=KEY) as running:
        yield running


waits: list[float] = []


async def no_wait(seconds: float) -> None:
    waits.append(seconds)


def opened(emulator: SearchEmulator, name: str, key: str = KEY) -> HttpProvider:
    return HttpProvider(SHAPES[name], Access(key, emulator.url(name), rpm=6000), sleep=no_wait)


async def asked(provider: SearchProvider, query: str = "dark & deep", n: int = 7) -> list[Hit]:
    try:
        return await provider.search(query, n, "de-AT", "2001-02-03")
    finally:
        await provider.aclose()


@pytest.mark.parametrize("name", SHAPES)
async def test_hits_come_as_the_provider_has_them(emulator: SearchEmulator, name: str) -> None:
    hits = await asked(opened(emulator, name))
    assert [(hit.title, hit.url, hit.snippet, hit.date) for hit in hits] == [
        (hit.title, hit.url, hit.snippet, hit.date) for hit in ALL[:7]
    ]
    assert {hit.source for hit in hits} == {name}
    assert [request.query for request in emulator.requests] == ["dark & deep"]


@pytest.mark.parametrize("name", SHAPES)
async def test_more_than_one_page_of_hits(emulator: SearchEmulator, name: str) -> None:
    hits = await asked(opened(emulator, name), n=25)
    shape = SHAPES[name]
    most = 25 if shape.pages > 1 or shape.most >= 25 else shape.most
    assert [hit.url for hit in hits] == [hit.url for hit in ALL[:most]]


@pytest.mark.parametrize("name", SHAPES)
async def test_nothing_found_is_no_failure(emulator: SearchEmulator, name: str) -> None:
    assert await asked(opened(emulator, name), "nothing") == []


@pytest.mark.parametrize("name", SHAPES)
async def test_one_page_is_one_hit(emulator: SearchEmulator, name: str) -> None:
    assert [hit.title for hit in await asked(opened(emulator, name), "twice", 4)] == ["Title 0", "Title 1", "Title 2"]


def test_what_is_missing_is_named() -> None:
    for name, shape in SHAPES.items():
        with pytest.raises(ValueError, match=shape.keys[0] if shape.keys else shape.urls[0]):
            HttpProvider(shape, Access())
        assert name in NAMES
    assert KEY not in repr(Access(KEY))


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.header])
async def test_a_wrong_key_is_refused_for_good(emulator: SearchEmulator, name: str) -> None:
    with pytest.raises(ProviderRefused, match=SHAPES[name].keys[0]) as failure:
        await asked(opened(emulator, name, "wrong-key-77"))
    assert "wrong-key-77" not in str(failure.value)
    assert len(emulator.requests) == 1


HTML = Fault(body=b"<html><body>Just a moment...</body></html>", kind="text/html")
FAULTS = {
    "an HTML page with 200": (HTML, "parse", 1),
    "no JSON": (Fault(body=b'{"organic": ['), "parse", 1),
    "deep JSON": (Fault(body=b"[" * 100_000), "parse", 1),
    "an error with 200": (Fault(body=b'{"message": "Not enough credits", "error": "quota"}'), "http_status", 1),
    "another shape": (Fault(body=b"[1, 2]"), "parse", 1),
    "a list that is none": (Fault(body=b'{"organic": 5, "results": 5, "data": 5, "web": {"results": 5}}'), "parse", 1),
    "results without address": (
        Fault(body=b'{"organic": [{}], "results": [{}], "data": [{}], "web": {"results": [{}]}}'), "parse", 1,
    ),
    "an answer of 6 MB": (Fault(body=b'{"x": "' + b"a" * 6_000_000 + b'"}'), "too_large", 1),
    "a bomb": (Fault(body=gzip.compress(bytes(50_000_000)), headers=(("Content-Encoding", "gzip"),)), "too_large", 1),
    "nested encodings": (Fault(body=b"x", headers=(("Content-Encoding", "gzip, gzip"),)), "unsupported", 1),
    "over quota": (Fault(status=402), "http_status", 1),
    "over the plan": (Fault(status=432), "http_status", 1),
    "too many requests": (Fault(status=429), "limit", 1),
    "bad request": (Fault(status=400), "http_status", 1),
    "the key repeated": (Fault(status=400, body=f'{{"error": "key {KEY}"}}'.encode()), "http_status", 1),
    "moved": (Fault(status=302, headers=(("Location", "http://10.0.0.1/"),)), "http_status", 1),
    "broken for good": (Fault(status=503), "http_status", 2),
    "a gateway": (Fault(status=502, body=b"<html>bad gateway"), "http_status", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ["serper", "brave", "searxng"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_f72_failures_are_observed(emulator: SearchEmulator, name: str, fault: str) -> None:
    sent, kind, requests = FAULTS[fault]
    emulator.faults[name] = sent
    with connections() as seen, pytest.raises(ToolError) as failure:
        await asked(opened(emulator, name))
    assert failure.value.kind == kind
    assert name in str(failure.value) or kind in ("too_large", "unsupported")
    assert KEY not in str(failure.value)
    assert len(emulator.requests) == requests
    assert all(address[0] == "127.0.0.1" for address in seen)


async def test_f72_a_hiccup_is_tried_again(emulator: SearchEmulator) -> None:
    waits.clear()
    emulator.faults["serper"] = Fault(status=500, times=1)
    assert len(await asked(opened(emulator, "serper"))) == 7
    assert waits == [1.0]


async def test_f72_ten_thousand_results_are_capped(emulator: SearchEmulator) -> None:
    many = [{"title": "t" * 1000, "link": f"https://e.test/{n}", "snippet": "s" * 1000} for n in range(2000)]
    emulator.faults["serper"] = Fault(body=json.dumps({"organic": many}).encode())
    hits = await asked(opened(emulator, "serper"), n=10_000)
    assert len(hits) == 100
    assert max(len(hit.title) for hit in hits) == 300
    assert max(len(hit.snippet) for hit in hits) == 600


async def test_f72_addresses_that_are_none_are_left_out(emulator: SearchEmulator) -> None:
    odd = [{"title": "x", "link": link} for link in ("javascript:alert(1)", "file:///etc/passwd", 5, None, "")]
    emulator.faults["serper"] = Fault(body=json.dumps({"organic": [*odd, {"link": "https://e.test/"}]}).encode())
    assert [hit.url for hit in await asked(opened(emulator, "serper"))] == ["https://e.test/"]


async def test_nobody_there(emulator: SearchEmulator) -> None:
    provider = HttpProvider(SHAPES["searxng"], Access(base="http://127.0.0.1:1"), sleep=no_wait)
    with pytest.raises(ToolError, match="cannot be reached") as failure:
        await asked(provider)
    assert failure.value.kind == "network"


@pytest.mark.parametrize("since", ["yesterday", "2024-13-01", "5"])
async def test_a_date_that_is_none(emulator: SearchEmulator, since: str) -> None:
    provider = opened(emulator, "serper")
    with pytest.raises(ToolError, match="ISO date"):
        await provider.search("x", 3, None, since)
    await provider.aclose()


async def test_the_chain_falls_back_and_leaves_out_who_refuses(emulator: SearchEmulator) -> None:
    emulator.faults["brave"] = Fault(status=503)
    chain = SearchChain([opened(emulator, "serper", "wrong"), opened(emulator, "brave"), opened(emulator, "exa")])
    for _ in range(2):
        assert {hit.source for hit in await chain.search("x", 3)} == {"exa"}
    assert [r.provider for r in emulator.requests] == ["serper", "brave", "brave", "exa", "brave", "brave", "exa"]
    emulator.faults["exa"] = Fault(status=429)
    with pytest.raises(ToolError) as failure:
        await chain.search("x", 3)
    assert failure.value.kind == "limit"
    await chain.aclose()


async def test_the_limiter_holds_a_burst_back(emulator: SearchEmulator) -> None:
    provider = HttpProvider(SHAPES["searxng"], Access(base=emulator.url("searxng"), rpm=2), sleep=no_wait)
    held = {asyncio.create_task(provider.search("x", 3)) for _ in range(3)}
    while len(held) > 1:
        _, held = await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
    assert len(emulator.requests) == 2
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    await provider.aclose()


async def test_searches_are_recorded_and_replayed(emulator: SearchEmulator, tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    live = RecordedSearch(opened(emulator, "serper"), tmp_path, 60.0, clock=lambda: now[0])
    first = await live.search("a  b", 3)
    assert await live.search("a b", 3) == first
    assert len(emulator.requests) == 1
    now[0] += 61
    emulator.faults["serper"] = Fault(status=429)
    for query in ("a b", "c"):  # the failure of the first does not replace what was found
        with pytest.raises(ToolError):
            await live.search(query, 3)
    await live.aclose()
    offline = RecordedSearch(None, tmp_path, clock=lambda: now[0])
    with connections() as seen:
        assert await offline.search("a b", 3) == first
        with pytest.raises(ToolError, match="limits the rate") as replayed:
            await offline.search("c", 3)
        assert replayed.value.kind == "limit"
        with pytest.raises(ToolError, match="'d' was not recorded"):
            await offline.search("d", 3)
        with pytest.raises(ToolError, match="not recorded"):
            await offline.search("a b", 4)
    assert seen == []
    await offline.aclose()


@pytest.mark.parametrize(
    ("url", "blocked"),
    [
        ("https://huggingface.co/datasets/x/y", True), ("https://HuggingFace.co/Datasets/", True),
        ("http://www.huggingface.co/datasets/x?y=1#z", True), ("https://huggingface.co/%64atasets/x", True),
        ("https://huggingface.co/models/../datasets/x", True), ("https://huggingface.co//datasets//x", True),
        ("https://huggingface.co/datasetsx", False), ("https://huggingface.co/papers/1", False),
        ("https://a.leak.test/x", True), ("https://leak.test", True), ("https://notleak.test/", False),
        ("https://leak.test.evil.test/", False), ("https://leak.test.:443/", True), ("no url", False),
        ("http://[::1", False),
    ],
)  # fmt: skip
def test_blocklist(url: str, blocked: bool) -> None:
    assert Blocklist(["huggingface.co/datasets", "leak.test"]).blocks(url) is blocked


async def test_blocked_pages_are_not_listed(emulator: SearchEmulator) -> None:
    tool = SearchTool(opened(emulator, "exa"), SearchConfig(blocked=("site1.test", "site2.test/page")))
    text = (await tool.run(SearchArguments(queries=["x"]), CALL)).text
    assert "site0.test" in text and "site3.test" in text
    assert "site1.test" not in text and "site2.test" not in text
    await tool.aclose()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("serper", ["serper"]),
        ("serper, exa", ["serper", "exa"]),
        (["ddgs", {"name": "brave", "rpm": 5}], ["ddgs", "brave"]),
    ],
)
def test_providers_may_be_bare_names(given: object, names: list[str]) -> None:
    assert [one.name for one in SearchConfig.model_validate({"providers": given}).providers] == names


@pytest.mark.parametrize(
    "given",
    [{"providers": ["bing"]}, {"providers": 5}, {"blocked": ["/path"]}, {"providers": [{"name": "exa", "x": 1}]}],
)
def test_bad_settings_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        SearchConfig.model_validate(given)
