"""What goes wrong while visiting, row by row (F60 to F75; F72, searching, stands in tests/tools/search).

The whole hostile web is walked in `test_hostile_web`; here is what each row promises beyond ending well.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.records import ToolCall
from runners.devserver.hostile.bodies import _SAMPLES as SAMPLES
from runners.devserver.hostile.route import PHRASE
from runners.devserver.hostile_web import HostileWeb
from tests.support.load import slack
from tests.tools.web.loopback import FakeResolver, Writer, answer, connections, redirect, running
from tools.base import CallContext, ToolError
from tools.toolset import Toolset
from tools.visit.config import VisitConfig
from tools.visit.extracted import Unreadable
from tools.visit.files import FileReader
from tools.visit.tool import VisitArguments, VisitTool
from tools.visit.worker import ExtractionWorker
from tools.web.client import Fetcher
from tools.web.policy import FetchConfig

CALL = CallContext("s1.1", 1)


@pytest.fixture(scope="module")
def web() -> Iterator[HostileWeb]:
    with HostileWeb() as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool(web: HostileWeb, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VisitTool]:
    fetcher = Fetcher(FetchConfig(allow_hosts=web.allow_hosts), resolver=web.resolver())
    made = VisitTool(fetcher, tmp_path_factory.mktemp("pages"), VisitConfig(robots="off"))
    yield made
    await made.aclose()


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    made = FileReader()
    yield made
    made.close()


async def seen(tool: VisitTool, url: str, **more: object) -> str:
    try:
        return (await tool.run(VisitArguments.model_validate({"urls": [url], **more}), CALL)).text
    except ToolError as error:
        return f"{error.kind}: {error}"


async def fetched(handler: bytes | Callable[[Writer], object], **config: object) -> tuple[bytes, str]:
    """(body, note) of a page."""
    async with running() as site:
        site.pages["/"] = handler
        options = {"allow_hosts": (f"127.0.0.1:{site.port}",), **config}
        fetcher = Fetcher(FetchConfig.model_validate(options), resolver=FakeResolver({}))
        try:
            page = await fetcher.fetch(site.url("/"))
        finally:
            await fetcher.aclose()
        return page.body, page.note


async def test_f60_a_page_of_300_mb_costs_only_its_beginning() -> None:
    sent = 0

    async def huge(writer: Writer) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 300000000\r\n\r\n")
        while sent < 300_000_000:
            writer.write(b"x" * 1_000_000)
            sent += 1_000_000
            await writer.drain()

    body, note = await fetched(huge)
    assert len(body) == 10_000_000
    assert note.startswith("cut at 10000000")
    assert sent < 100_000_000


@pytest.mark.asyncio(loop_scope="module")
async def test_f60_the_note_reaches_the_model(tool: VisitTool, web: HostileWeb) -> None:
    text = await seen(tool, web.url("/bomb/plain"))
    assert PHRASE in text and "the document is larger than is read" in text
    assert "incomplete" in await seen(tool, web.url("/framing/short"))


async def test_f61_one_encoding_and_a_ceiling() -> None:
    """590 bytes of double gzip became 268 MB in a client without."""
    twice = gzip.compress(gzip.compress(bytes(50_000_000)))
    assert len(twice) < 2000
    for coding, kind in (("gzip, gzip", "unsupported"), ("gzip", None)):
        raw = answer(twice, headers=(f"Content-Encoding: {coding}",))
        if kind:
            with pytest.raises(ToolError) as failure:
                await fetched(raw)
            assert failure.value.kind == kind
        else:
            body, _ = await fetched(raw)
            assert len(body) < 300_000  # the inner layer, still packed
    wordy = gzip.compress(b"".join(b"%d " % n for n in range(3_000_000)))
    body, note = await fetched(answer(wordy, headers=("Content-Encoding: gzip",)), max_raw=20_000_000)
    assert len(body) == 20_000_000 and note.startswith("cut at 20000000")


@pytest.mark.asyncio(loop_scope="module")
async def test_f62_headers_are_bounded(tool: VisitTool, web: HostileWeb) -> None:
    for path in ("/headers/10000", "/headers/long"):
        assert (await seen(tool, web.url(path))).startswith("network: ")


@pytest.mark.asyncio(loop_scope="module")
async def test_f63_no_redirect_escapes(tool: VisitTool, web: HostileWeb) -> None:
    paths = [route.path for route in web.routes if route.path.startswith("/redirect/to/")]
    assert len(paths) >= 40
    with connections() as reached:
        texts = [await seen(tool, web.url(path)) for path in paths]
    assert set(reached) == {("127.0.0.1", web.port)}
    assert all(text.split(":")[0] in ("forbidden", "invalid_arguments", "http_status", "network", "not_found", "limit")
               for text in texts)  # fmt: skip
    assert sum(text.startswith("forbidden: ") for text in texts) >= 25


@pytest.mark.asyncio(loop_scope="module")
async def test_f63_five_hops_and_no_more(tool: VisitTool, web: HostileWeb) -> None:
    assert PHRASE in await seen(tool, web.url("/redirect/chain/5"))
    before = len(web.requests)
    assert (await seen(tool, web.url("/redirect/chain/6"))).startswith("limit: ")
    assert len(web.requests) - before == 6


async def test_f65_each_hop_is_resolved_once_and_pinned(tmp_path: Path) -> None:
    """The name answers with a public address first and a private one later: nothing is asked a second time."""
    async with running() as site:
        name = f"rebind.test:{site.port}"
        resolver = FakeResolver(turns={"rebind.test": [["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"]]})
        fetcher = Fetcher(FetchConfig(allow_hosts=(name,)), resolver=resolver)
        tool = VisitTool(fetcher, tmp_path, VisitConfig(robots="off"))
        site.pages["/a"] = redirect(f"http://{name}/b")
        site.pages["/b"] = answer(PHRASE)
        with connections() as reached:
            assert PHRASE in await seen(tool, f"http://{name}/a")
        assert resolver.asked == ["rebind.test", "rebind.test"]
        assert set(reached) == {("127.0.0.1", site.port)}
        await tool.aclose()


async def test_f66_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await fetched(answer("direct")))[0] == b"direct"


@pytest.mark.parametrize("codec", [
    "gbk", "gb18030", "big5", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "cp949", "windows-1251", "koi8-r",
    "koi8-u", "iso-8859-5", "cp866", "mac-cyrillic", "windows-1255", "iso-8859-8", "windows-1256", "iso-8859-6",
    "windows-1253", "iso-8859-7", "windows-1254", "iso-8859-9", "iso-8859-2", "windows-1250", "cp852", "iso-8859-1",
    "iso-8859-15", "windows-1252", "cp437", "mac-roman", "tis-620", "utf-7", "utf-8", "utf-8-sig", "utf-16",
    "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
])  # fmt: skip
def test_f67_forty_encodings_as_labelled_or_not(reader: FileReader, codec: str) -> None:
    def fits(text: str) -> bool:
        try:
            return text.encode(codec).decode(codec) == text
        except UnicodeError:
            return False

    text = next(sample for sample in SAMPLES.values() if fits(sample))
    body = f"<html><body><p>{text}</p></body></html>".encode(codec)
    assert text[:15] in reader.read(body, "", "http://e.test/", f"text/html; charset={codec}").text
    for label in ("", "text/html; charset=foo", "text/html; charset=utf-8", "text/html; charset=idna"):
        started = time.monotonic()
        try:
            reader.read(body, "", "http://e.test/", label)
        except Unreadable as error:
            assert error.kind in ("unsupported", "parse")
        assert time.monotonic() - started < 5 * slack()


@pytest.mark.asyncio(loop_scope="module")
async def test_f68_pdfs_say_why_not(tool: VisitTool, web: HostileWeb) -> None:
    assert "only the first 500 of 601 pages" in await seen(tool, web.url("/pdf/pages"))
    assert "encrypted" in await seen(tool, web.url("/pdf/encrypted"))
    for path in ("/pdf/cut", "/pdf/header-only", "/pdf/noise", "/pdf/no-pages", "/pdf/loop"):
        assert (await seen(tool, web.url(path))).startswith("parse: "), path


@pytest.mark.asyncio(loop_scope="module")
async def test_f69_what_was_lost_is_said(tool: VisitTool, web: HostileWeb) -> None:
    for path in ("/html/deep-blocks", "/html/deep-inline", "/html/attributes"):
        started = time.monotonic()
        text = await seen(tool, web.url(path))
        assert PHRASE in text and "shown without structure" in text, path
        assert time.monotonic() - started < 21 * slack()
    assert "hidden" not in (await seen(tool, web.url("/hidden/script"))).lower().replace("/hidden/", "")


@pytest.mark.asyncio(loop_scope="module")
async def test_f70_archives_are_never_unpacked(tool: VisitTool, web: HostileWeb) -> None:
    for path in ("/binary/zip", "/binary/zip-as-html", "/binary/png-as-text", "/binary/exe", "/binary/mp4"):
        text = await seen(tool, web.url(path))
        assert text.startswith("unsupported: not a text document ("), path
        assert PHRASE not in text


@pytest.mark.asyncio(loop_scope="module")
async def test_f71_injected_text_is_an_observation_and_nothing_more(tool: VisitTool, web: HostileWeb) -> None:
    """What a page orders is shown as its text, without invisible letters; nothing is fetched because of it."""
    toolset = Toolset([tool])
    paths = [route.path for route in web.routes if route.path.startswith(("/injection/", "/hidden/tags"))]
    with connections() as reached:
        for path in paths:
            calls = [ToolCall("s1.1", "visit", {"urls": [web.url(path)]})]
            (observation,) = await toolset.run(calls, step=1)
            assert observation.error is None
            assert PHRASE in observation.text
            assert not any(0xE0000 <= ord(letter) <= 0xE007F for letter in observation.text)
    assert set(reached) == {("127.0.0.1", web.port)}


async def test_f73_the_same_page_comes_from_the_recording_until_it_is_refreshed(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    async with running() as site:
        fetcher = Fetcher(FetchConfig(allow_hosts=(f"127.0.0.1:{site.port}",)), resolver=FakeResolver({}))
        tool = VisitTool(fetcher, tmp_path, VisitConfig(robots="off"), clock=lambda: now[0])
        site.pages["/a"] = answer("version one", kind="text/plain")
        assert "version one" in await seen(tool, site.url("/a"))
        site.pages["/a"] = answer("version two", kind="text/plain")
        now[0] += 4000
        again = await seen(tool, site.url("/a"))
        assert "version one" in again and "as fetched on 2023-11-14" in again
        assert "version two" in await seen(tool, site.url("/a"), refresh=True)
        assert "version two" in await seen(tool, site.url("/a"))
        assert len(site.requests) == 2
        site.pages["/a"] = answer("", status="500 Oops")
        assert (await seen(tool, site.url("/a"), refresh=True)).startswith("http_status: ")
        assert "version two" in await seen(tool, site.url("/a"))
        await tool.aclose()


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://e.test/", "//", "http:\\\\", "http://e.test:"]))
async def test_f74_any_url_is_refused_or_read_and_nothing_else(tmp_path: Path, text: str, start: str) -> None:
    fetcher = Fetcher(resolver=FakeResolver({}))
    with connections() as reached:
        try:
            await fetcher.fetch(start + text)
        except ToolError as error:
            assert error.kind in ("invalid_arguments", "forbidden", "network")
            assert len(str(error)) < 400
        else:
            raise AssertionError("nothing can be read here")
    await fetcher.aclose()
    assert reached == []


@pytest.mark.parametrize("url", [
    "http://e.test/" + "a" * 100_000, "http://e.test/a b", "http://e.test/\r\nX: y", "http://e.test/\0", "/relative",
    "e.test/page", "http://e.test/\u202e", "HTTP://E.TEST:80/%zz",
])  # fmt: skip
async def test_f74_odd_urls(tmp_path: Path, url: str) -> None:
    tool = VisitTool(Fetcher(resolver=FakeResolver({})), tmp_path)
    toolset = Toolset([tool])
    (observation,) = await toolset.run([ToolCall("s1.1", "visit", {"url": url})], step=1)
    assert observation.error in ("invalid_arguments", "network")
    assert len(observation.text) < 1500
    await toolset.aclose()


def test_f75_a_child_that_dies_on_a_document_is_replaced() -> None:
    worker = ExtractionWorker()
    reader = FileReader(worker)
    reader.read(b"<p>warm enough to begin with</p>", "", "", "text/html")
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGSEGV)
    assert "again" in reader.read(b"<p>and once again</p>", "", "", "text/html").text
    assert worker.pid not in (None, first)
    reader.close()


async def test_f75_a_child_killed_within_a_document_is_an_observation() -> None:
    """Killed, and so is the one that takes its place: said, and the next document is read."""
    worker = ExtractionWorker()
    worker.extract("html", b"<p>warm</p>")
    slow = b"<html><body><p>" + b"<i>word</i> " * 29_000
    task = asyncio.create_task(asyncio.to_thread(worker.extract, "html", slow))
    while not task.done():
        pid = worker.pid
        if pid is not None and worker.busy:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0)
    with pytest.raises(Unreadable, match="crashed"):
        await task
    assert "next" in worker.extract("html", b"<p>the next one</p>").text
    worker.close()


def test_f75_memory_has_a_ceiling(reader: FileReader) -> None:
    """A table whose cells repeat without end cannot take the machine's memory."""
    nested = b"<html><body>" + b"<table><tr><td colspan=1000 rowspan=1000>" * 300 + b"bottom"
    assert "bottom" in reader.read(nested, "", "", "text/html").text


def test_httpx_still_decodes_without_a_ceiling() -> None:
    """Why the decoder is ours: should this fail, theirs has one now."""
    bomb = gzip.compress(bytes(30_000_000))
    response = httpx.Response(200, headers={"content-encoding": "gzip"}, content=bomb)
    assert len(response.content) == 30_000_000
