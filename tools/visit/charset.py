"""Bytes to text: byte order mark, then header, then ``<meta>``, then a detector. Never raises."""

from __future__ import annotations

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]{2,40})""")
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.IGNORECASE)
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "ascii": "utf-8", "iso8859-1": "cp1252", "euc_kr": "cp949"}
"""Browsers read these labels as the larger set; pages rely on it."""
_MAX_BAD_SHARE = 0.001
_PROBE = 65_536


def decode(body: bytes, content_type: str = "", *, markup: bool = False) -> tuple[str, str]:
    """(text, encoding used). ``markup``: look for a declaration inside the document too.

    A declared encoding that plainly does not fit (over 0.1 % undecodable) is passed over for the next witness.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace"), name
    for name in _declared(body, content_type, markup):
        try:
            text = body.decode(name, "replace")
        except UnicodeError:  # a codec that cannot replace, such as idna
            continue
        if text.count("\ufffd") <= max(1, len(text) * _MAX_BAD_SHARE):
            return text, name
    return _detected(body)


def _declared(body: bytes, content_type: str, markup: bool) -> list[str]:
    labels = [found[1] for found in (_HEADER.search(content_type),) if found]
    if markup:
        labels += [found[1].decode("ascii") for found in (_XML.search(body[:1024]), _META.search(body[:4096])) if found]
    names: list[str] = []
    for label in labels:
        try:
            name = codecs.lookup(label).name
            "".encode(name)
        except (LookupError, UnicodeError):
            continue
        names.append(_SUPERSETS.get(name, name))
    return names


def _detected(body: bytes) -> tuple[str, str]:
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        if len(body) - error.start < 4:  # cut inside the last character
            return body[: error.start].decode("utf-8"), "utf-8"
    from charset_normalizer import from_bytes

    best = from_bytes(body[:_PROBE]).best()
    name = _SUPERSETS.get(best.encoding, best.encoding) if best else "cp1252"
    return body.decode(name, "replace"), name
