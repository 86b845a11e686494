"""Statuses, redirects, headers, framing, time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from memory.records import ErrorKind
from runners.devserver.hostile.route import (
    PHRASE,
    Route,
    Writer,
    article,
    chunks,
    drip,
    fixed,
    for_ever,
    redirect,
    reply,
    send,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
_SHOWN = (200, 201, 202, 203, 206, 207, 226, 300, 304)
_EMPTY = (204, 205)
_GONE = (404, 410)
_FAILED = (
    *range(400, 404), *range(405, 410), *range(411, 419), *range(421, 430), 431, 444, 451, 499, *range(500, 509),
    510, 511, 520, 522, 525, 530, 599, 999,
)  # fmt: skip
REFUSED: tuple[ErrorKind, ...] = ("forbidden", "invalid_arguments", "http_status", "network", "not_found", "limit")
LOCATIONS = {
    "loopback": "http://127.0.0.1:1/", "loopback-name": "http://localhost/", "loopback6": "http://[::1]/",
    "any": "http://0.0.0.0/", "decimal": "http://2130706433/", "hex": "http://0x7f000001/", "short": "http://127.1/",
    "octal": "http://0177.0.0.1/", "circled": "http://①②⑦.⓪.⓪.①/", "mapped": "http://[::ffff:127.0.0.1]/",
    "nat64": "http://[64:ff9b::7f00:1]/", "6to4": "http://[2002:7f00:1::]/", "teredo": "http://[2001:0:7f00:1::]/",
    "metadata": "http://169.254.169.254/latest/meta-data/", "metadata6": "http://[fd00:ec2::254]/",
    "ten": "http://10.0.0.1/", "192": "http://192.168.1.1/", "172": "http://172.16.0.1/", "cgnat": "http://100.64.0.1/",
    "benchmark": "http://198.18.0.1/", "multicast": "http://224.0.0.1/", "relay": "http://192.88.99.1/",
    "private-name": "http://private.test/", "mixed-name": "http://mixed.test/", "no-name": "http://nowhere.test/",
    "scheme-relative": "//10.0.0.1/x", "file": "file:///etc/passwd", "data": "data:text/html,hello",
    "javascript": "javascript:alert(1)", "ftp": "ftp://10.0.0.1/", "gopher": "gopher://10.0.0.1/",
    "websocket": "ws://10.0.0.1/", "userinfo": "http://user:pw@example.test/", "at": "http://1.1.1.1@127.0.0.1/",
    "ssh-port": "http://private.test:22/", "redis-port": "http://private.test:6379/",
    "port-zero": "http://private.test:0/", "port-huge": "http://private.test:99999/",
    "no-host": "http:///x", "bad-bracket": "http://[::1/", "scheme": "http:",
    "backslashes": "http:\\\\127.0.0.1\\", "zone": "http://[fe80::1%25lo]/",
    "long": "http://example.test/" + "a" * 9000,
    "percent-host": "http://%31%32%37.0.0.1/", "dot": "http://./", "space": "http://exa mple.test/",
}  # fmt: skip
"""Where a redirect may try to lead."""


def routes() -> Iterator[Route]:
    yield from _statuses()
    yield from _redirects()
    yield from _headers()
    yield from _framing()
    yield from _time()


def _statuses() -> Iterator[Route]:
    for status in _SHOWN:
        if status == 304:
            yield fixed(
                "/status/304", "not modified, though nobody asked", reply("", "304 Not Modified"), fails=("parse",)
            )
            continue
        yield fixed(f"/status/{status}", f"HTTP {status} with a page", reply(article(), f"{status} Fine"), PHRASE)
    for status in _EMPTY:
        raw = f"HTTP/1.1 {status} Nothing\r\nConnection: close\r\n\r\n".encode()
        yield fixed(f"/status/{status}", f"HTTP {status} without a body", raw, fails=("parse",))
    for status in _GONE:
        yield fixed(f"/status/{status}", f"HTTP {status}", reply(article(), f"{status} Gone"), fails=("not_found",))
    for status in _FAILED:
        yield fixed(f"/status/{status}", f"HTTP {status}", reply(article(), f"{status} No"), fails=("http_status",))


def _redirects() -> Iterator[Route]:
    for status in (301, 302, 303, 307, 308):
        yield fixed(f"/redirect/{status}", f"HTTP {status} to a page", redirect("/status/200", f"{status} Go"), PHRASE)
    for length in range(5, 0, -1):
        target = f"/redirect/chain/{length - 1}" if length > 1 else "/status/200"
        yield fixed(f"/redirect/chain/{length}", f"a chain of {length} redirects", redirect(target), PHRASE)
    yield fixed("/redirect/chain/6", "a chain of 6 redirects", redirect("/redirect/chain/5"), fails=("limit",))
    yield fixed("/redirect/loop", "a redirect to itself", redirect("/redirect/loop"), fails=("limit",))
    yield fixed("/redirect/ping", "a redirect to one that leads back", redirect("/redirect/pong"), fails=("limit",))
    yield fixed("/redirect/pong", "the other half of the loop", redirect("/redirect/ping"), fails=("limit",))
    yield fixed("/redirect/relative/a", "a relative target", redirect("../../status/200"), PHRASE)
    yield fixed("/redirect/fragment", "a target with a fragment", redirect("/status/200#part"), PHRASE)
    yield fixed("/redirect/query", "a target that is only a query", redirect("?again=1"), fails=("limit",))
    yield fixed("/redirect/none", "a redirect without a target", reply(article(), "302 Found"), PHRASE)
    yield fixed("/redirect/empty", "an empty target", reply(article(), "302 Found", headers=("Location: ",)), PHRASE)
    twice = reply("", "302 Found", headers=("Location: /status/200", "Location: http://10.0.0.1/"))
    yield fixed("/redirect/twice", "two targets", twice, fails=REFUSED)
    yield fixed("/redirect/gone", "a redirect to a page that is gone", redirect("/status/410"), fails=("not_found",))
    for name, location in LOCATIONS.items():
        raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % location.encode()
        yield fixed(f"/redirect/to/{name}", f"a redirect to {location[:60]}", raw, fails=REFUSED)


def _headers() -> Iterator[Route]:
    def page(*headers: str, shows: str = PHRASE) -> bytes:
        return reply(article(shows), headers=headers)

    cookies = tuple(f"Set-Cookie: c{n}={n}" for n in range(1000))
    yield fixed("/headers/cookies", "1,000 cookies", page(*cookies), PHRASE)
    network: tuple[ErrorKind, ...] = ("network",)
    many = tuple(f"Set-Cookie: c{n}={'x' * 90}" for n in range(10_000))
    yield fixed("/headers/10000", "10,000 headers, 1 MB", page(*many), fails=network)
    yield fixed("/headers/long", "a header of 1 MB", page(f"X-Long: {'a' * 1_000_000}"), fails=network)
    yield fixed("/headers/types", "two content types", page("Content-Type: application/zip"), PHRASE)
    yield fixed("/headers/no-type", "no content type", reply(article(), kind=None), PHRASE)
    yield fixed("/headers/odd-type", "a content type that is none", reply(article(), kind="///;;charset"), PHRASE)
    yield fixed("/headers/lengths", "two lengths that differ", page("Content-Length: 5"), fails=network)
    yield fixed("/headers/negative", "a negative length", reply(article(), length="-5"), fails=network)
    yield fixed("/headers/words", "a length in words", reply(article(), length="many"), fails=network)
    yield fixed("/headers/astronomic", "a length of 30 digits", reply(article(), length="9" * 30), fails=network)
    body = article().encode()
    yield fixed("/headers/colon", "a header without a colon", OK + b"Nonsense\r\n\r\n" + body, fails=network)
    yield fixed("/headers/nul", "a NUL in a header", OK + b"X-N: a\0b\r\n\r\n" + body, fails=network)
    yield fixed("/headers/8-bit", "a header in Latin-1", OK + b"X-N: caf\xe9\r\n\r\n" + body, PHRASE)
    yield fixed("/headers/folded", "a folded header", OK + b"X-N: a\r\n  b\r\n\r\n" + body, PHRASE)
    yield fixed("/headers/none", "no header at all", b"HTTP/1.1 200 OK\r\n\r\n" + body, PHRASE)
    yield fixed("/headers/refresh", "a Refresh header", page("Refresh: 0; url=http://10.0.0.1/"), PHRASE)
    yield fixed("/headers/auth", "asks for a password", reply("", "401 No", headers=("WWW-Authenticate: Basic",)),
                fails=("http_status",))  # fmt: skip
    yield fixed("/headers/attachment", "a page to be saved", page("Content-Disposition: attachment"), PHRASE)
    yield fixed("/headers/link", "a Link header", page('Link: <http://10.0.0.1/>; rel="preload"'), PHRASE)


def _framing() -> Iterator[Route]:
    body, network = article().encode(), ("network",)
    lines = {
        "0.9": (b"", "no status line: HTTP/0.9", False), "1.0": (b"HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.0", True),
        "2.0": (b"HTTP/2.0 200 OK\r\n\r\n", "an answer that calls itself HTTP/2.0", True),
        "icy": (b"ICY 200 OK\r\n\r\n", "a radio station", False),
        "no-reason": (b"HTTP/1.1 200\r\n\r\n", "a status without a reason", True),
        "no-status": (b"HTTP/1.1 OK\r\n\r\n", "a status line without a status", False),
        "letters": (b"HTTP/1.1 2x0 OK\r\n\r\n", "a status with a letter", False),
        "newline": (b"HTTP/1.1 200 OK\n\n", "bare line feeds", True),
    }  # fmt: skip
    for name, (head, what, shown) in lines.items():
        yield fixed(f"/framing/{name}", what, head + body, PHRASE if shown else "", () if shown else ("network",))
    yield fixed("/framing/nothing", "nothing at all", b"", fails=("network",))
    yield fixed("/framing/half-line", "half a status line", b"HTTP/1.1 20", fails=("network",))
    yield fixed("/framing/half-header", "half a header", OK[:-9], fails=("network",))
    yield fixed("/framing/binary", "noise", bytes(range(256)) * 40, fails=("network",))
    yield fixed("/framing/short", "less than its length says", reply(body, length="99999"), PHRASE)
    yield fixed("/framing/nothing-of-it", "nothing of its length", reply(b"", length="500"), fails=("network",))
    yield fixed("/framing/long", "more than its length says", reply(body + b"<p>extra", length=str(len(body))), PHRASE)
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    yield fixed("/framing/chunked", "chunks", chunked + b"".join(chunks(body[:40], body[40:])), PHRASE)
    single = b"".join(chunks(*(body[n : n + 1] for n in range(len(body)))))
    yield fixed("/framing/crumbs", "a chunk for each byte", chunked + single, PHRASE)
    extension = b"%x;%b\r\n%b\r\n0\r\n\r\n" % (len(body), b"a=b", body)
    yield fixed("/framing/extension", "a chunk with an extension", chunked + extension, PHRASE)
    trailer = b"%x\r\n%b\r\n0\r\nX-After: 1\r\n\r\n" % (len(body), body)
    yield fixed("/framing/trailer", "a header after the body", chunked + trailer, PHRASE)
    yield fixed("/framing/no-end", "chunks without an end", chunked + b"%x\r\n%b\r\n" % (len(body), body), PHRASE)
    for name, size in {"words": b"many", "negative": b"-5", "huge": b"f" * 40, "empty": b""}.items():
        raw = chunked + size + b"\r\n" + body + b"\r\n0\r\n\r\n"
        yield fixed(f"/framing/size-{name}", f"a chunk size that is {name}", raw, fails=network)  # type: ignore[arg-type]
    both = OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks(body))
    yield fixed("/framing/both", "a length and chunks", both, PHRASE)
    odd = OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + b"".join(chunks(body))
    yield fixed("/framing/transfer-gzip", "a transfer encoding that nobody knows", odd, fails=network)  # type: ignore[arg-type]
    early = b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + reply(body)
    yield fixed("/framing/continue", "50 interim answers first", early, PHRASE)
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + reply(body)
    yield fixed("/framing/hints", "early hints", hints, PHRASE)
    yield fixed("/framing/two", "a second answer behind the first", reply(body) + reply("<p>second"), PHRASE)


def _time() -> Iterator[Route]:
    async def silent(writer: Writer) -> None:
        await for_ever()

    async def slow_headers(writer: Writer) -> None:
        await drip(writer, OK + b"X-Slow: " + b"a" * 100_000, 0.05)

    async def stalls(writer: Writer) -> None:
        await send(writer, OK, b"\r\n", article().encode())
        await for_ever()

    async def before_body(writer: Writer) -> None:
        await send(writer, OK, b"\r\n")
        await for_ever()

    async def drips(writer: Writer) -> None:
        await send(writer, OK, b"\r\n", article().encode())
        await drip(writer, b" more" * 100_000, 0.05)

    async def slow(writer: Writer) -> None:
        raw = reply(article())
        await send(writer, raw[:-40])
        await drip(writer, raw[-40:], 0.002)

    async def endless(writer: Writer) -> None:
        await send(writer, OK, b"\r\n", article().encode())
        while True:
            await send(writer, b"<p>And more, and more, and more.</p>" * 2000)

    async def interim(writer: Writer) -> None:
        while True:
            await send(writer, b"HTTP/1.1 102 Processing\r\n\r\n" * 100)
            await asyncio.sleep(0.001)

    yield Route("/time/silent", "never answers", silent, fails=("timeout",))
    yield Route("/time/slow-headers", "headers byte by byte, for ever", slow_headers, fails=("timeout", "network"))
    yield Route("/time/no-body", "headers, and nothing more", before_body, fails=("timeout",))
    yield Route("/time/stalls", "stops within the page", stalls, PHRASE)
    yield Route("/time/drips", "a page, then a byte now and then", drips, PHRASE)
    yield Route("/time/slow", "the end byte by byte", slow, PHRASE)
    yield Route("/time/endless", "a page that never ends", endless, PHRASE)
    yield Route("/time/interim", "interim answers for ever", interim, fails=("timeout", "network"))
