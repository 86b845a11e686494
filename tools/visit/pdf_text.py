"""PDF to text by pypdf, page by page. Runs in the extraction child: broken files loop and eat memory."""

from __future__ import annotations

import io
import logging
import time

from tools.visit.extracted import Extracted, Unreadable

MAX_PAGES = 500
MAX_CHARS = 3_000_000


def pdf_text(body: bytes, soft_limit_s: float) -> Extracted:
    """Text with a line ``[page n]`` before each page. What was read within ``soft_limit_s`` is kept, with a note.

    Raises Unreadable for an encrypted, broken or textless document.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    started = time.monotonic()
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF is encrypted")
        count = len(reader.pages)
        title = str((reader.metadata and reader.metadata.title) or "").strip()
    except Unreadable:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
        raise Unreadable(f"not a readable PDF ({type(error).__name__}: {error})") from error
    except (NotImplementedError, ImportError) as error:
        raise Unreadable(f"the PDF is encrypted in a way that is not supported ({error})") from error
    parts: list[str] = []
    notes: list[str] = []
    size = failed = 0
    for number in range(count):
        if number >= MAX_PAGES or size > MAX_CHARS or time.monotonic() - started > soft_limit_s:
            notes.append(f"only the first {number} of {count} pages were read")
            break
        try:
            text = (reader.pages[number].extract_text() or "").strip()
        except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError):
            failed += 1
            continue
        if text:
            parts.append(f"[page {number + 1}]\n{text}")
            size += len(text)
    if failed:
        notes.append(f"{failed} pages could not be read")
    if not parts:
        raise Unreadable(f"the PDF holds no text ({count} pages; scanned images, perhaps)")
    return Extracted(title, "\n\n".join(parts), tuple(notes))
