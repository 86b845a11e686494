"""Files: data, documents, archives, media, and labels that lie about them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

from memory.records import ErrorKind
from runners.devserver.hostile.route import PHRASE, Route, article, fixed, reply

_PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + bytes(100)
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def routes() -> Iterator[Route]:
    yield from _data()
    yield from _pdfs()
    yield from _office()
    yield from _binaries()


def pdf(*pages: str, extra: str = "", size: int | None = None) -> bytes:
    """A PDF with one line of Latin text a page. ``extra`` goes into its trailer; ``size`` is a false page count."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids: list[str] = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        where = f"/Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {len(objects)} 0 R"
        objects.append(f"<< /Type /Page {where} >>")
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {size or len(kids)} >>"
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R {extra} >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")


def archive(parts: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return file.getvalue()


def word(body: str) -> bytes:
    """The least that is a Word document."""
    document = f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>'
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    parts = {"[Content_Types].xml": types, "_rels/.rels": relations, "word/document.xml": document}
    return archive({name: text.encode() for name, text in parts.items()})


def _data() -> Iterator[Route]:
    rows = "year,event\n" + "".join(f"{year},{PHRASE if year == 1831 else 'nothing'}\n" for year in range(1800, 1900))
    nested = "[" * 100_000 + "]" * 100_000
    cells = [{"cell_type": "markdown", "source": [PHRASE]}, {"cell_type": "code", "source": "print(1)", "outputs": []}]
    notebook = json.dumps({"nbformat": 4, "cells": cells})
    texts = {
        "csv": ("text/csv", rows), "tsv": ("text/tab-separated-values", rows.replace(",", "\t")),
        "json": ("application/json", json.dumps({"text": PHRASE})),
        "jsonl": ("application/x-ndjson", f'{{"a": 1}}\n{{"a": "{PHRASE}"}}\n'),
        "deep-json": ("application/json", f"{PHRASE} {nested}"),
        "broken-json": ("application/json", f'{{"a": "{PHRASE}'),
        "xml": ("application/xml", f"<?xml version='1.0'?><a><b>{PHRASE}</b></a>"),
        "rss": ("application/rss+xml", f"<?xml version='1.0'?><rss><item><title>{PHRASE}</title></item></rss>"),
        "markdown": ("text/markdown", f"# Varden\n\n{PHRASE}\n"), "yaml": ("application/yaml", f"text: {PHRASE}\n"),
        "text": ("text/plain", PHRASE), "script": ("application/javascript", f"// {PHRASE}\n"),
        "notebook.ipynb": ("application/json", notebook), "unlabelled": ("application/octet-stream", PHRASE),
        "page-as-text": ("text/plain", article()), "page-as-json": ("application/json", article()),
    }  # fmt: skip
    for name, (kind, text) in texts.items():
        shown = "The lighthouse of Varden" if name == "csv" else PHRASE
        if name in ("csv", "tsv"):
            shown = "year"
        yield fixed(f"/file/{name}", f"{name} as {kind}", reply(text, kind=kind), shown)
    yield fixed("/file/broken.ipynb", "a notebook that is none", reply("{}", kind="application/json"), fails=("parse",))
    short = f"year;event\n1831;{PHRASE}\n"
    yield fixed("/file/semicolons.csv", "a table with semicolons", reply(short, kind="text/csv"), PHRASE)


def _pdfs() -> Iterator[Route]:
    whole = pdf(PHRASE)
    kind = "application/pdf"
    yield fixed("/pdf/whole", "a PDF", reply(whole, kind=kind), PHRASE)
    yield fixed("/pdf/as-html", "a PDF called HTML", reply(whole), PHRASE)
    yield fixed("/pdf/as-bytes", "a PDF called bytes", reply(whole, kind="application/octet-stream"), PHRASE)
    yield fixed("/pdf/junk-before", "junk before a PDF", reply(b"junk\n" * 20 + whole, kind=kind), PHRASE)
    many = pdf(PHRASE, *(f"page {n}" for n in range(600)))
    yield fixed("/pdf/pages", "a PDF of 601 pages", reply(many, kind=kind), PHRASE)
    broken = {
        "cut": whole[: len(whole) // 4], "header-only": b"%PDF-1.7\n", "noise": b"%PDF-1.4\n" + bytes(range(256)) * 40,
        "no-pages": pdf(), "loop": whole.replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
        "encrypted": pdf(PHRASE, extra="/Encrypt << /Filter /Standard /V 1 /R 2 /O (" + "o" * 32 + ") /U (" + "u" * 32
                         + ") /P -4 >> /ID [(a) (b)]"),
    }  # fmt: skip
    for name, content in broken.items():
        yield fixed(f"/pdf/{name}", f"a PDF that is {name}", reply(content, kind=kind), fails=("parse",))
    yield fixed("/pdf/login", "a page where a PDF should be", reply(article(), kind=kind), PHRASE)


def _office() -> Iterator[Route]:
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    failed: tuple[ErrorKind, ...] = ("parse", "unsupported", "too_large")
    good = word(f"<w:p><w:r><w:t>{PHRASE}</w:t></w:r></w:p>")
    yield fixed("/office/word.docx", "a Word document", reply(good, kind=kind), PHRASE)
    yield fixed("/office/cut.docx", "half a Word document", reply(good[:200], kind=kind), fails=failed)
    hollow = archive({"word/document.xml": b"<x/>"})
    yield fixed("/office/hollow.docx", "a Word document without its parts", reply(hollow, kind=kind), fails=failed)
    deep = word(
        "<w:tbl><w:tr><w:tc>" * 300 + f"<w:p><w:r><w:t>{PHRASE}</w:t></w:r></w:p>" + "</w:tc></w:tr></w:tbl>" * 300
    )
    yield fixed("/office/deep.docx", "300 nested tables", reply(deep, kind=kind), fails=failed)
    sheet = archive({"xl/workbook.xml": b"<workbook/>", "xl/worksheets/sheet1.xml": b"<x/>"})
    yield fixed(
        "/office/hollow.xlsx", "a workbook without its parts", reply(sheet, kind="application/zip"), fails=failed
    )
    yield Route("/office/bomb.xlsx", "a workbook that says it unpacks to 2 GB", _office_bomb, fails=("too_large",))
    old = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2000)
    yield fixed(
        "/office/old.xls", "an old workbook, damaged", reply(old, kind="application/vnd.ms-excel"), fails=failed
    )


def _office_bomb() -> bytes:
    """Small, but its table of contents speaks of 2 GB: nobody should begin to unpack it."""
    packed = bytearray(archive({"xl/workbook.xml": b"<workbook/>"}))
    size = packed.rindex(b"PK\x01\x02") + 24
    packed[size : size + 4] = (2_000_000_000).to_bytes(4, "little")
    return reply(bytes(packed), kind="application/octet-stream")


def _binaries() -> Iterator[Route]:
    refused: tuple[ErrorKind, ...] = ("unsupported",)
    zipped = archive({"a.txt": PHRASE.encode()})
    contents = {
        "zip": (zipped, "application/zip"), "zip-as-html": (zipped, "text/html"), "png": (_PNG, "image/png"),
        "png-as-text": (_PNG, "text/plain"), "jpeg": (b"\xff\xd8\xff\xe0" + bytes(99), "image/jpeg"),
        "mp4": (b"\0\0\0\x18ftypmp42" + bytes(99), "video/mp4"), "mp3": (b"ID3\x03" + bytes(99), "audio/mpeg"),
        "exe": (b"MZ\x90\0" + bytes(99), "application/x-msdownload"), "elf": (b"\x7fELF" + bytes(99), "text/html"),
        "wasm": (b"\0asm" + bytes(99), "application/wasm"), "gz": (b"\x1f\x8b\x08" + bytes(99), "application/gzip"),
        "rar": (b"Rar!\x1a\x07" + bytes(99), "text/plain"), "sqlite": (b"SQLite format 3\0" + bytes(99), "text/plain"),
        "noise": (bytes(range(256)) * 8, "text/plain"), "font": (b"wOF2" + bytes(range(256)), "font/woff2"),
    }  # fmt: skip
    yield fixed("/file/unknown", "words of an unknown type", reply(PHRASE, kind="application/x-thing"), PHRASE)
    for name, (content, kind) in contents.items():
        yield fixed(f"/binary/{name}", f"{name} as {kind}", reply(content, kind=kind), fails=refused)
