"""OpenDocument files (.ods, .odt, .odp) to lines of text, with nothing but lxml. Runs in the extraction child."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from tools.visit.extracted import Unreadable

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_MAX_REPEAT = 100
"""A cell or row may say that it stands a million times."""


def odf_lines(body: bytes) -> Iterator[str]:
    """Raises Unreadable, ValueError, OSError."""
    from lxml import etree

    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        if b"encryption-data" in archive.read("META-INF/manifest.xml") if _has_manifest(archive) else False:
            raise Unreadable("the file is encrypted")
        content = archive.read("content.xml")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(content, parser)
    if root is None:
        raise Unreadable("the file holds no document")
    yield from _walk(root)


def _has_manifest(archive: zipfile.ZipFile) -> bool:
    return "META-INF/manifest.xml" in archive.namelist()


def _walk(root: Any) -> Iterator[str]:
    """In document order, without recursion: a table as rows, else headings and paragraphs."""
    stack = [iter(root)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        elif node.tag == f"{_TABLE}table":
            yield f"\n## Sheet: {node.get(f'{_TABLE}name', '')}".rstrip(": ")
            yield from _rows(node)
        elif node.tag == f"{_TEXT}h":
            level = node.get(f"{_TEXT}outline-level", "1")
            yield f"\n{'#' * min(int(level) if level.isdigit() else 1, 6)} {_text(node)}"
        elif node.tag == f"{_TEXT}p":
            text = _text(node)
            if text:
                yield text
        else:
            if node.tag == f"{_DRAW}page":
                yield f"\n[slide {node.get(f'{_DRAW}name', '')}]"
            if isinstance(node.tag, str):
                stack.append(iter(node))


def _rows(table: Any) -> Iterator[str]:
    for row in table.iter(f"{_TABLE}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            text = " ".join(filter(None, (_text(p) for p in cell.iter(f"{_TEXT}p")))).replace("|", "/")
            cells += [text] * _repeat(cell, "number-columns-repeated")
        line = " | ".join(cells).rstrip(" |")
        if line:
            for _ in range(_repeat(row, "number-rows-repeated")):
                yield line


def _repeat(node: Any, name: str) -> int:
    count = node.get(f"{_TABLE}{name}", "1")
    return min(int(count), _MAX_REPEAT) if count.isdigit() else 1


def _text(node: Any) -> str:
    return " ".join("".join(node.itertext()).split())
