"""Encodings, bombs and charsets."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from runners.devserver.hostile.route import PHRASE, Route, article, fixed, reply

_SAMPLES = {
    "Chinese": "瓦尔登的灯塔建于一八三一年，至今仍在使用，守塔人每天晚上都会点亮它。",
    "Traditional": "瓦爾登的燈塔建於一八三一年，至今仍在使用，守塔人每天晚上都會點亮它。",
    "Japanese": "ヴァルデンの灯台は一八三一年に建てられ、今も毎晩あかりがともされています。",
    "Korean": "바르덴의 등대는 천팔백삼십일년에 세워졌고 지금도 밤마다 불을 밝힌다.",
    "Russian": "Маяк в Вардене был построен в тысяча восемьсот тридцать первом году и горит до сих пор.",
    "Hebrew": "המגדלור של ורדן נבנה לפני שנים רבות והוא מאיר עד היום בכל לילה.",
    "Arabic": "بنيت منارة فاردن منذ سنوات كثيرة ولا تزال تضيء كل ليلة حتى اليوم.",
    "Greek": "Ο φάρος του Βάρντεν χτίστηκε πριν από πολλά χρόνια και φωτίζει ακόμη κάθε νύχτα.",
    "Turkish": "Varden deniz feneri yıllar önce inşa edildi ve hâlâ her gece ışık saçıyor.",
    "Polish": "Latarnia morska w Varden została zbudowana dawno temu i wciąż świeci każdej nocy.",
    "French": "Le phare de Varden a été bâti il y a longtemps ; il éclaire encore la côte chaque nuit.",
    "Thai": "ประภาคารแห่งวาร์เดนสร้างขึ้นเมื่อนานมาแล้วและยังส่องสว่างทุกคืน",
}
_LABELLED = (
    ("gbk", "Chinese"), ("gb2312", "Chinese"), ("gb18030", "Chinese"), ("big5", "Traditional"),
    ("shift_jis", "Japanese"), ("euc-jp", "Japanese"), ("iso-2022-jp", "Japanese"), ("euc-kr", "Korean"),
    ("windows-1251", "Russian"), ("koi8-r", "Russian"), ("iso-8859-5", "Russian"), ("windows-1255", "Hebrew"),
    ("iso-8859-8", "Hebrew"), ("windows-1256", "Arabic"), ("iso-8859-7", "Greek"), ("windows-1253", "Greek"),
    ("windows-1254", "Turkish"), ("iso-8859-9", "Turkish"), ("iso-8859-2", "Polish"), ("windows-1250", "Polish"),
    ("iso-8859-1", "French"), ("iso-8859-15", "French"), ("windows-1252", "French"), ("tis-620", "Thai"),
    ("utf-8", "Thai"), ("utf-16", "Greek"), ("utf-16-le", "Greek"), ("utf-16-be", "Greek"), ("utf-32", "Greek"),
)  # fmt: skip
_LIES = ("utf-8", "foo", "idna", "hex", "rot13", "", "utf-7", "us-ascii", "undefined")


def routes() -> Iterator[Route]:
    yield from _encodings()
    yield from _bombs()
    yield from _charsets()


def _encodings() -> Iterator[Route]:
    body = article().encode()

    def coded(content: bytes, *codings: str) -> bytes:
        return reply(content, headers=tuple(f"Content-Encoding: {coding}" for coding in codings))

    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bare = raw.compress(body) + raw.flush()
    packed = gzip.compress(body)
    good: dict[str, tuple[bytes, tuple[str, ...]]] = {
        "gzip": (packed, ("gzip",)), "x-gzip": (packed, ("x-gzip",)), "upper-case": (packed, ("GZIP",)),
        "deflate": (zlib.compress(body), ("deflate",)), "bare-deflate": (bare, ("deflate",)),
        "identity": (body, ("identity",)), "empty": (body, ("",)),
        "garbage-behind": (packed + b"garbage" * 50, ("gzip",)), "cut": (packed[:-12], ("gzip",)),
    }  # fmt: skip
    for name, (content, codings) in good.items():
        yield fixed(f"/encoding/{name}", f"{name}: {codings}", coded(content, *codings), PHRASE)
    twice = gzip.compress(packed)
    for name, (content, codings) in {
        "twice": (twice, ("gzip, gzip",)), "two-headers": (twice, ("gzip", "gzip")),
        "mixed": (zlib.compress(packed), ("gzip, deflate",)), "br": (packed, ("br",)), "zstd": (packed, ("zstd",)),
        "unknown": (packed, ("rot13",)), "compress": (packed, ("compress",)),
    }.items():  # fmt: skip
        yield fixed(f"/encoding/{name}", f"{name}: {codings}", coded(content, *codings), fails=("unsupported",))
    yield fixed("/encoding/lie", "says gzip and is not", coded(body, "gzip"), fails=("parse",))
    yield fixed(
        "/encoding/noise", "gzip with noise inside", coded(packed[:12] + bytes(range(256)), "gzip"), fails=("parse",)
    )
    yield fixed("/encoding/no-content", "gzip of nothing", coded(gzip.compress(b""), "gzip"), fails=("parse",))
    unsaid = reply(packed, kind="text/html")
    yield fixed("/encoding/unsaid", "gzip that nobody mentions", unsaid, fails=("unsupported",))


def _bombs() -> Iterator[Route]:
    def bomb(coding: str, megabytes: int, fill: bytes) -> bytes:
        pack = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
        start = pack.compress(article().encode())
        content = (
            start + b"".join(pack.compress(fill * (1_000_000 // len(fill))) for _ in range(megabytes)) + pack.flush()
        )
        return reply(content, headers=(f"Content-Encoding: {coding}",))

    def nested() -> bytes:
        inner = gzip.compress(gzip.compress(b"\0" * 100_000_000))
        return reply(inner, headers=("Content-Encoding: gzip",))

    yield Route("/bomb/gzip", "200 MB of zeros in gzip", lambda: bomb("gzip", 200, b"\0"), fails=("too_large",))
    yield Route(
        "/bomb/deflate", "200 MB of zeros in deflate", lambda: bomb("deflate", 200, b"\0"), fails=("too_large",)
    )
    yield Route("/bomb/nested", "gzip in gzip in one header", nested, fails=("unsupported",))
    yield Route(
        "/bomb/plain", "12 MB without compression", lambda: reply(article(body="<p>word</p>" * 1_100_000)), PHRASE
    )
    yield Route("/bomb/line", "a line of 4 MB", lambda: reply(PHRASE + " word" * 800_000, kind="text/plain"), PHRASE)


def _charsets() -> Iterator[Route]:
    for codec, language in _LABELLED:
        text = _SAMPLES[language]
        content = article(text).encode(codec)
        raw = reply(content, kind=f"text/html; charset={codec}")
        yield fixed(f"/charset/{codec}", f"{language} in {codec}, as labelled", raw, text[:20])
    for codec, language in (("gbk", "Chinese"), ("shift_jis", "Japanese"), ("windows-1251", "Russian")):
        text = _SAMPLES[language]
        meta = article(text * 3, head=f'<meta charset="{codec}">').encode(codec)
        yield fixed(f"/charset/meta-{codec}", f"{codec}, said by <meta> only", reply(meta, kind="text/html"), text[:20])
        lie = reply(meta, kind="text/html; charset=utf-8")
        yield fixed(f"/charset/lie-{codec}", f"{codec}, called UTF-8 by the header", lie, text[:20])
    for label in _LIES:
        raw = reply(article(_SAMPLES["Chinese"]), kind=f"text/html; charset={label}")
        yield fixed(f"/charset/label-{label or 'empty'}", f"UTF-8, labelled {label!r}", raw, _SAMPLES["Chinese"][:20])
    bom = reply(b"\xef\xbb\xbf" + article().encode(), kind="text/html; charset=gbk")
    yield fixed("/charset/bom", "a byte order mark against the header", bom, PHRASE)
    xml = f'<?xml version="1.0" encoding="koi8-r"?><html><body><p>{_SAMPLES["Russian"]}</p></body></html>'.encode(
        "koi8-r"
    )
    yield fixed(
        "/charset/xml", "an XML declaration", reply(xml, kind="application/xhtml+xml"), _SAMPLES["Russian"][:20]
    )
    mixed = article().encode() + "<p>caf\xe9</p>".encode("latin-1") * 3
    yield fixed("/charset/mixed", "UTF-8 with some Latin-1", reply(mixed), PHRASE)
    broken = article().encode() + b"<p>\xff\xfe\xc0\x80\xed\xa0\x80</p>"
    yield fixed("/charset/invalid", "bytes that no charset has", reply(broken), PHRASE)
    unmarked = article(_SAMPLES["Greek"]).encode("utf-16-le")
    yield fixed(
        "/charset/utf-16-unsaid",
        "UTF-16 without mark or label",
        reply(unmarked, kind="text/html"),
        _SAMPLES["Greek"][:20],
    )
