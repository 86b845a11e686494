"""What a body is, by its first bytes before its label: servers mislabel, and a PDF is a PDF."""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "html", "pdf", "json", "csv", "xml", "markdown", "text", "ipynb", "xlsx", "docx", "pptx", "odf", "xls", "binary"
]
"""``xls``: any Office file of before 2007 or an encrypted one, which have one container, and the binary .xlsb."""

_MAGIC = tuple(
    bytes.fromhex(start)
    for start in (
        *(
            "504b0506",
            "504b0708",
            "1f8b",
            "526172211a",
            "377abcaf",
            "425a68",
            "fd377a585a",
        ),  # empty zip, gz, rar, 7z, bz2, xz
        *("89504e47", "ffd8ff", "47494638", "52494646", "00000100"),  # png, jpeg, gif, riff, ico
        *("7f454c46", "4d5a9000", "0061736d"),  # elf, exe, wasm
        *("4f676753", "494433", "53514c69746520666f726d6174"),  # ogg, mp3, sqlite
    )
)
_ZIP, _OLE = bytes.fromhex("504b0304"), bytes.fromhex("d0cf11e0")
_PARTS: dict[bytes, Kind] = {
    b"xl/workbook.bin": "xls",
    b"xl/workbook.xml": "xlsx",
    b"word/document.xml": "docx",
    b"ppt/presentation.xml": "pptx",
    b"mimetypeapplication/vnd.oasis.opendocument": "odf",
}
_OFFICE: dict[str, Kind] = {
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".xlsb": "xls", ".docx": "docx", ".docm": "docx", ".pptx": "pptx",
    ".ods": "odf", ".odt": "odf", ".odp": "odf",
}  # fmt: skip
_BY_TYPE: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/json": "json",
    "text/json": "json",
    "application/ld+json": "json",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "text/markdown": "markdown",
    "application/x-ndjson": "json",
    "application/x-ipynb+json": "ipynb",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/javascript": "text",
}
BY_SUFFIX: dict[str, Kind] = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".jsonld": "json",
    ".geojson": "json",
    ".ipynb": "ipynb",
    ".xml": "xml",
    ".rss": "xml",
    ".atom": "xml",
    ".svg": "xml",
    ".csv": "csv",
    ".tsv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
}
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HTML_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<!--")
_PROBE = 4096


def sniff(content_type: str, body: bytes, suffix: str = "") -> Kind:
    """The kind of a body. ``content_type`` as sent (parameters allowed, empty when absent)."""
    head = body[:_PROBE]
    if b"%PDF-" in head[:1024]:
        return "pdf"
    packed = _packed(head, body, suffix.lower())
    if packed is not None:
        return packed
    label = content_type.split(";", 1)[0].strip().lower()
    declared = _BY_TYPE.get(label)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n\0").lower()
    if start.startswith(_HTML_STARTS):
        return "html"
    if declared == "pdf" or (declared is None and _looks_binary(head)):
        return "binary"
    by_suffix = BY_SUFFIX.get(suffix.lower())
    if by_suffix == "ipynb" and start.startswith(b"{"):
        return "ipynb"
    if declared is not None:
        return declared
    if label.endswith("+json"):
        return "json"
    if start.startswith(b"<?xml") or label.endswith("+xml"):
        return "xml"
    if by_suffix is not None and by_suffix != "pdf":
        return by_suffix
    if label and not label.startswith(("text/", "application/")):
        return "binary"
    return "text"


def _packed(head: bytes, body: bytes, suffix: str) -> Kind | None:
    """The kind of an archive, an office file or a medium, None for none of these. An office file is known by the names
    of its parts, or by its own; any other archive is never unpacked."""
    if head.startswith(_ZIP):
        return next((kind for mark, kind in _PARTS.items() if mark in body), _OFFICE.get(suffix, "binary"))
    if head.startswith(_OLE):
        return "xls"
    return "binary" if head.startswith(_MAGIC) or head[4:8] == b"ftyp" else None


def _looks_binary(head: bytes) -> bool:
    """Many control characters and no sign of UTF-16: not a text."""
    if head.startswith(_BOMS) or not head:
        return False
    zeros = head.count(0)
    if zeros > len(head) // 4:  # UTF-16 without a mark has a zero in every second byte, always at the same parity
        even = head[::2].count(0)
        return min(even, zeros - even) > zeros // 10
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
    return control > len(head) // 20
