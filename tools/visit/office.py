"""Spreadsheets, documents and presentations to text (extra ``files``). Runs in the extraction child."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from datetime import time as day_time
from typing import Any

from tools.visit.extracted import Extracted, Unreadable

INSTALL = "pip install 'longstride[files]'"
MAX_CHARS = 3_000_000
MAX_UNPACKED = 400_000_000
_MAX_COLUMNS = 500
_MAX_DEPTH = 20
_BROKEN = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError, SyntaxError),
    zipfile.BadZipFile,
)


def office_text(kind: str, body: bytes, soft_limit_s: float) -> Extracted:
    """``kind``: ``xlsx``, ``xls`` (and xlsb), ``docx``, ``pptx`` or ``odf``.

    What was read within ``soft_limit_s`` is kept, with a note.
    Raises Unreadable: broken, encrypted, a zip bomb, or the extra is not installed.
    """
    if body.startswith(b"PK"):
        _check_zip(body)
    deadline = time.monotonic() + soft_limit_s
    try:
        return _read(kind, body, deadline)
    except Unreadable as error:
        if kind != "xlsx":
            raise
        try:  # another reader, which minds other things
            return _read("xls", body, deadline)
        except Unreadable:
            raise error from None


def _read(kind: str, body: bytes, deadline: float) -> Extracted:
    notes: list[str] = []
    try:
        if kind == "odf":
            from tools.visit.odf import odf_lines

            title, lines = "", odf_lines(body)
        else:
            title, lines = {"xlsx": _workbook, "xls": _old_workbook, "docx": _document, "pptx": _slides}[kind](
                io.BytesIO(body)
            )
        text = _collected(lines, deadline, notes)
    except ImportError as error:
        raise Unreadable(f"{kind} files need an extra: {INSTALL}", "unsupported") from error
    except Unreadable:
        raise
    except _BROKEN as error:
        reason = " ".join(str(error).split())[:160]
        raise Unreadable(f"not a readable {kind} file ({type(error).__name__}: {reason})") from error
    if not any(line and not line.startswith("## Sheet: ") for line in text.split("\n")):
        raise Unreadable(f"the {kind} file holds no text")
    return Extracted(title, text, tuple(notes))


def _check_zip(body: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise Unreadable(f"the file is damaged ({error})") from error
    if unpacked > MAX_UNPACKED:
        raise Unreadable(f"the file unpacks to {unpacked // 1_000_000} MB: not read", "too_large")


def _collected(lines: Iterable[str], deadline: float, notes: list[str]) -> str:
    parts: list[str] = []
    size = 0
    for line in lines:
        parts.append(line)
        size += len(line) + 1
        if size > MAX_CHARS or time.monotonic() > deadline:
            notes.append("only the beginning was read: the file is very long")
            break
    return "\n".join(parts)


def _workbook(file: io.BytesIO) -> tuple[str, Iterator[str]]:
    from openpyxl import load_workbook

    book = load_workbook(file, read_only=True, data_only=True)
    return str(book.properties.title or ""), _sheets(book)


def _sheets(book: Any) -> Iterator[str]:
    """Every sheet as rows of cells that keep their columns; values, not formulas."""
    for number, sheet in enumerate(book.worksheets):
        hidden = "" if sheet.sheet_state == "visible" else f" ({sheet.sheet_state})"
        yield f"{chr(10) if number else ''}## Sheet: {sheet.title}{hidden}"
        if hasattr(sheet, "reset_dimensions"):
            sheet.reset_dimensions()
        yield from _rows(sheet.iter_rows(values_only=True, max_col=_MAX_COLUMNS))


def _rows(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    empty = 0
    for row in rows:
        line = " | ".join(map(cell_text, row[:_MAX_COLUMNS])).rstrip(" |")
        if not line:
            empty += 1
            continue
        if empty:
            yield "" if empty == 1 else f"({empty} empty rows)"
            empty = 0
        yield line


def _old_workbook(file: io.BytesIO) -> tuple[str, Iterator[str]]:
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    try:
        book = CalamineWorkbook.from_filelike(file)
    except PasswordError as error:
        raise Unreadable("the file is protected by a password") from error
    except CalamineError as error:
        raise Unreadable("an old or encrypted Office file that is no readable spreadsheet", "unsupported") from error

    def lines() -> Iterator[str]:
        for number, name in enumerate(book.sheet_names):
            yield f"{chr(10) if number else ''}## Sheet: {name}"
            try:
                yield from _rows(book.get_sheet_by_name(name).to_python(skip_empty_area=False))
            except CalamineError as error:
                yield f"(this sheet cannot be read: {error})"

    return "", lines()


def cell_text(value: object) -> str:
    """A cell as a person sees it: dates in ISO form, whole numbers without a point, one line."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == day_time() else value.isoformat(" ", "seconds")
    if isinstance(value, date | day_time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return " ".join(str(value).replace("\0", "").split()).replace("|", "/")


def _document(file: io.BytesIO) -> tuple[str, Iterator[str]]:
    from docx import Document

    document = Document(file)
    return document.core_properties.title or "", _blocks(document)


def _blocks(container: Any, depth: int = 0) -> Iterator[str]:
    """Paragraphs and tables in their order."""
    for block in container.iter_inner_content():
        if hasattr(block, "rows"):
            for row in block.rows:
                cells = dict.fromkeys(row.cells)  # a merged cell comes once for each place it takes
                yield " | ".join(cell_text(_cell(cell, depth)) for cell in cells)
            yield ""
            continue
        text = block.text.strip()
        if not text:
            continue
        style = (block.style.name if block.style is not None else "") or ""
        level = style.removeprefix("Heading ")
        if level.isdigit():
            yield f"\n{'#' * min(int(level), 6)} {text}"
        elif style == "Title":
            yield f"# {text}"
        else:
            yield f"- {text}" if style.startswith("List") else text


def _cell(cell: Any, depth: int) -> str:
    return "; ".join(_blocks(cell, depth + 1)) if depth < _MAX_DEPTH else str(cell.text)


def _slides(file: io.BytesIO) -> tuple[str, Iterator[str]]:
    from pptx import Presentation

    slides = Presentation(file)
    return slides.core_properties.title or "", _slide_lines(slides)


def _slide_lines(slides: Any) -> Iterator[str]:
    for number, slide in enumerate(slides.slides, 1):
        yield f"{chr(10) if number > 1 else ''}[slide {number}]"
        for shape in slide.shapes:
            yield from _shape(shape, 0)
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None and notes.text.strip():
            yield f"Notes: {notes.text.strip()}"


def _shape(shape: Any, depth: int) -> Iterator[str]:
    if depth < _MAX_DEPTH and hasattr(shape, "shapes"):
        for inner in shape.shapes:
            yield from _shape(inner, depth + 1)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " | ".join(cell_text(cell.text) for cell in row.cells)
    elif getattr(shape, "has_chart", False):
        for plot in shape.chart.plots:
            yield "Chart: " + " | ".join(cell_text(category) for category in plot.categories)
            for series in plot.series:
                yield " | ".join([cell_text(series.name), *map(cell_text, series.values)])
    elif shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text.strip()
