"""The client against real servers on loopback: redirects, pinning, sizes, encodings, time."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from pathlib import Path

import pytest

from tests.tools.web.loopback import FakeResolver, Site, Writer, answer, connections, redirect, running
from tools.base import ToolError
from tools.web.client import Fetcher, Page
from tools.web.policy import FetchConfig

CERTIFICATE = Path(__file__).with_name("pinned.test.pem")


def fetcher_for(site: Site, **options: object) -> Fetcher:
    config = FetchConfig.model_validate({"allow_hosts": (f"127.0.0.1:{site.port}",), **options})
    return Fetcher(config, resolver=FakeResolver({}))


async def fetch(site: Site, path: str, **options: object) -> Page:
    fetcher = fetcher_for(site, **options)
    try:
        return await fetcher.fetch(site.url(path))
    finally:
        await fetcher.aclose()


async def failing(site: Site, path: str, **options: object) -> ToolError:
    with pytest.raises(ToolError) as failure:
        await fetch(site, path, **options)
    return failure.value


async def test_a_page_comes_whole_and_nothing_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with running() as site:
        site.pages["/a"] = answer("<p>hello</p>", headers=("Set-Cookie: id=1; Path=/",))
        fetcher = fetcher_for(site)
        page = await fetcher.fetch(site.url("/a#part"))
        await fetcher.fetch(site.url("/a"))
        await fetcher.aclose()
        assert (page.status, page.body, page.note, page.url) == (200, b"<p>hello</p>", "", site.url("/a"))
        for request in site.requests:
            assert "cookie" not in request.lower()
            assert "referer" not in request.lower()
            assert "authorization" not in request.lower()


async def test_redirects_are_followed_and_named() -> None:
    async with running() as site:
        site.pages["/a"] = redirect("b?x=1")
        site.pages["/b?x=1"] = redirect(site.url("/c"), "308 Permanent Redirect")
        site.pages["/c"] = answer("end")
        page = await fetch(site, "/a")
        assert page.body == b"end"
        assert page.url == site.url("/c")
        assert page.redirects == (site.url("/a"), site.url("/b?x=1"))


@pytest.mark.parametrize("chain", [5, 6])
async def test_at_most_five_redirects(chain: int) -> None:
    async with running() as site:
        for number in range(chain):
            site.pages[f"/{number}"] = redirect(f"/{number + 1}")
        site.pages[f"/{chain}"] = answer("end")
        if chain == 5:
            assert (await fetch(site, "/0")).body == b"end"
        else:
            assert (await failing(site, "/0")).kind == "limit"


async def test_a_redirect_loop_ends() -> None:
    async with running() as site:
        site.pages["/a"] = redirect("/a")
        assert (await failing(site, "/a")).kind == "limit"
        assert len(site.requests) == 6


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "//10.0.0.1/x",
        "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "ftp://127.0.0.1/", "http://user@127.0.0.1/",
        "http://private.test/", "https://rebound.test/", "http://[bad/", "http:\\\\127.0.0.1\\",
    ],
)  # fmt: skip
async def test_every_hop_is_checked(location: str) -> None:
    async with running() as site:
        site.pages["/a"] = redirect(location)
        resolver = FakeResolver({"private.test": ["10.0.0.1"], "rebound.test": ["93.184.216.34", "127.0.0.1"]})
        fetcher = Fetcher(FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",)), resolver=resolver)
        with connections() as seen, pytest.raises(ToolError) as failure:
            await fetcher.fetch(site.url("/a"))
        await fetcher.aclose()
        assert set(seen) == {("127.0.0.1", site.port)}
        assert failure.value.kind in ("forbidden", "invalid_arguments", "http_status", "network")


async def test_a_name_is_resolved_once_a_hop_and_pinned() -> None:
    async with running() as site:
        name = f"pinned.test:{site.port}"
        resolver = FakeResolver(turns={"pinned.test": [["127.0.0.1"], ["10.0.0.1"]]})
        fetcher = Fetcher(FetchConfig(allow_hosts=(name,)), resolver=resolver)
        site.pages["/a"] = answer("once")
        with connections() as seen:
            page = await fetcher.fetch(site.url("/a", "pinned.test"))
        await fetcher.aclose()
        assert page.body == b"once"
        assert resolver.asked == ["pinned.test"]
        assert seen == [("127.0.0.1", site.port)]
        assert f"host: {name}\r\n" in site.requests[0].lower()


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    async with running() as site:
        resolver = FakeResolver({"two.test": ["127.0.0.2", "127.0.0.1"]})
        fetcher = Fetcher(FetchConfig(allow_hosts=(f"two.test:{site.port}",)), resolver=resolver)
        site.pages["/"] = answer("second")
        assert (await fetcher.fetch(site.url("/", "two.test"))).body == b"second"
        await fetcher.aclose()


async def test_tls_is_verified_for_the_name_not_the_address() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(CERTIFICATE)
    trust = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with running(server) as site:
        site.pages["/"] = answer("secret")
        hosts = (f"pinned.test:{site.port}", f"other.test:{site.port}")
        resolver = FakeResolver({"pinned.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
        fetcher = Fetcher(FetchConfig(allow_hosts=hosts), resolver=resolver, verify=trust)
        assert (await fetcher.fetch(site.url("/", "pinned.test", "https"))).body == b"secret"
        with pytest.raises(ToolError, match="cannot connect"):
            await fetcher.fetch(site.url("/", "other.test", "https"))
        await fetcher.aclose()


async def test_logical_hosts_follow_their_port() -> None:
    async with running() as site:
        hosts = {"corpus.local": f"127.0.0.1:{site.port}"}
        fetcher = Fetcher(resolver=FakeResolver({}), hosts=hosts)
        site.pages["/p"] = answer("mine")
        page = await fetcher.fetch("http://corpus.local/p")
        assert (page.body, page.url, page.local) == (b"mine", "http://corpus.local/p", True)
        assert "host: corpus.local\r\n" in site.requests[0].lower()
        for url in ("https://corpus.local/p", "http://corpus.local:8080/p", f"http://127.0.0.1:{site.port}/p"):
            with pytest.raises(ToolError):
                await fetcher.fetch(url)
        await fetcher.aclose()


def compressed(body: bytes, coding: str) -> bytes:
    return answer(body, headers=(f"Content-Encoding: {coding}",))


async def test_encodings() -> None:
    text = b"words and more words " * 500
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    async with running() as site:
        site.pages["/gzip"] = compressed(gzip.compress(text), "gzip")
        site.pages["/trailing"] = compressed(gzip.compress(text) + b"garbage", "x-gzip")
        site.pages["/deflate"] = compressed(zlib.compress(text), "deflate")
        site.pages["/raw"] = compressed(raw.compress(text) + raw.flush(), "deflate")
        site.pages["/identity"] = compressed(text, "identity")
        for path in ("/gzip", "/trailing", "/deflate", "/raw", "/identity"):
            page = await fetch(site, path)
            assert (page.body, page.note) == (text, ""), path
        site.pages["/cut"] = compressed(gzip.compress(text)[:-20], "gzip")
        cut = await fetch(site, "/cut")
        assert cut.body
        assert "breaks off" in cut.note
        site.pages["/twice"] = compressed(gzip.compress(gzip.compress(text)), "gzip, gzip")
        site.pages["/br"] = compressed(text, "br")
        site.pages["/lie"] = compressed(text, "gzip")
        kinds = [(await failing(site, path)).kind for path in ("/twice", "/br", "/lie")]
        assert kinds == ["unsupported", "unsupported", "parse"]


async def test_a_gzip_bomb_is_refused_early() -> None:
    bomb = gzip.compress(b"\0" * 100_000_000)
    async with running() as site:
        site.pages["/bomb"] = compressed(bomb, "gzip")
        assert (await failing(site, "/bomb")).kind == "too_large"


async def test_an_endless_body_is_cut() -> None:
    async def endless(writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"more and more " * 5000)
            await writer.drain()

    async with running() as site:
        site.pages["/"] = endless
        page = await fetch(site, "/", max_raw=1_000_000)
        assert len(page.body) == 1_000_000
        assert "cut at 1000000" in page.note


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"])
async def test_a_silent_server_meets_the_deadline(sent: bytes) -> None:
    async def silent(writer: Writer) -> None:
        writer.write(sent)
        await asyncio.Event().wait()

    async with running() as site:
        site.pages["/"] = silent
        async with asyncio.timeout(5):
            assert (await failing(site, "/", total_s=0.3)).kind == "timeout"


async def test_what_a_dripping_server_sent_in_time_is_kept() -> None:
    async def drip(writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst words")
        await asyncio.Event().wait()

    async with running() as site:
        site.pages["/"] = drip
        page = await fetch(site, "/", total_s=0.5)
        assert page.body == b"first words"
        assert "incomplete" in page.note


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"not http at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"a" * 300_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
    ],
)  # fmt: skip
async def test_broken_answers_are_network_errors(raw: bytes) -> None:
    async with running() as site:
        site.pages["/"] = raw
        assert (await failing(site, "/")).kind == "network"


async def test_a_short_body_is_kept_with_a_note() -> None:
    async with running() as site:
        site.pages["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning"
        page = await fetch(site, "/")
        assert page.body == b"beginning"
        assert "incomplete" in page.note


async def test_statuses_are_returned() -> None:
    async with running() as site:
        site.pages["/busy"] = answer("wait", status="503 Service Unavailable")
        assert (await fetch(site, "/busy")).status == 503
        assert (await fetch(site, "/missing")).status == 404
