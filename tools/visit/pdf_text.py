"""PDF to text, page by page: by pdfium (extra ``files``: faster, and it reads more), else by pypdf.

Runs in the extraction child: broken files loop and eat memory.
"""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Callable

from tools.visit.extracted import Extracted, Unreadable

MAX_PAGES = 500
MAX_CHARS = 3_000_000
_SOFT_HYPHEN = re.compile(r"[\x02\ufffe]\s?")
"""How pdfium writes the hyphen of a word that a line end divides."""
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError, ArithmeticError)


def pdf_text(body: bytes, soft_limit_s: float) -> Extracted:
    """Text with a line ``[page n]`` before each page. What was read within ``soft_limit_s`` is kept, with a note.

    Raises Unreadable for an encrypted, broken or textless document.
    """
    deadline = time.monotonic() + soft_limit_s
    try:
        return _by_pdfium(body, deadline)
    except (ImportError, Unreadable):  # what pypdf says of a broken file tells more
        return _by_pypdf(body, deadline)


def _by_pypdf(body: bytes, deadline: float) -> Extracted:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF is encrypted")
        count = len(reader.pages)
        title = str((reader.metadata and reader.metadata.title) or "").strip()
    except Unreadable:
        raise
    except (PyPdfError, *_BROKEN) as error:
        raise Unreadable(f"not a readable PDF ({type(error).__name__}: {error})") from error
    except (NotImplementedError, ImportError) as error:
        raise Unreadable(f"the PDF is encrypted in a way that is not supported ({error})") from error

    def page(number: int) -> str | None:
        try:
            return reader.pages[number].extract_text() or ""
        except (PyPdfError, *_BROKEN):
            return None

    return _pages(title, count, page, deadline)


def _by_pdfium(body: bytes, deadline: float) -> Extracted:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(body)
    except PdfiumError as error:
        raise Unreadable(str(error)) from error

    def page(number: int) -> str | None:
        try:
            text = str(document[number].get_textpage().get_text_bounded())
        except PdfiumError:
            return None
        return _SOFT_HYPHEN.sub("", text).replace("\r\n", "\n")

    return _pages(str(document.get_metadata_dict().get("Title", "")).strip(), len(document), page, deadline)


def _pages(title: str, count: int, page: Callable[[int], str | None], deadline: float) -> Extracted:
    """``page``: text of a page by its index, None when it cannot be read."""
    parts: list[str] = []
    notes: list[str] = []
    size = failed = 0
    for number in range(count):
        if number >= MAX_PAGES or size > MAX_CHARS or time.monotonic() > deadline:
            notes.append(f"only the first {number} of {count} pages were read")
            break
        text = page(number)
        if text is None:
            failed += 1
        elif text.strip():
            parts.append(f"[page {number + 1}]\n{text.strip()}")
            size += len(text)
    if failed:
        notes.append(f"{failed} pages could not be read")
    if not parts:
        raise Unreadable(f"the PDF holds no text ({count} pages; scanned images, perhaps)")
    return Extracted(title, "\n\n".join(parts), tuple(notes))
