"""Files and bodies of every kind to text: cheap kinds here, HTML and PDF in the extraction child."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.visit.charset import decode
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.sniff import Kind, sniff
from tools.visit.worker import ExtractionWorker, Job

_HEADING = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)

_IN_CHILD: Mapping[Kind, Job] = {
    "pdf": "pdf", "xlsx": "xlsx", "xls": "xls", "docx": "docx", "pptx": "pptx", "odf": "odf", "ipynb": "ipynb"
}  # fmt: skip


class FileReader:
    """Text of a body by its kind. Blocking; thread-safe. Close it to end the child."""

    def __init__(self, worker: ExtractionWorker | None = None) -> None:
        self._worker = worker or ExtractionWorker()

    def read(self, body: bytes, suffix: str, url: str = "", content_type: str = "") -> Extracted:
        """``suffix``: of the file or the URL's path, with the dot. Raises Unreadable."""
        kind = sniff(content_type, body, suffix)
        if kind == "binary":
            what = content_type.split(";")[0] or suffix or "unknown type"
            raise Unreadable(f"not a text document ({what})", "unsupported")
        if kind == "html":
            return self._html(body, content_type, url)
        if kind in _IN_CHILD:
            return self._worker.extract(_IN_CHILD[kind], body, content_type, url)
        text = decode(body, content_type, markup=kind == "xml")[0].replace("\0", "")
        heading = _HEADING.search(text[:5000]) if kind == "markdown" else None
        return Extracted(heading[1] if heading else "", text, _data_notes(kind, text))

    def _html(self, body: bytes, content_type: str, url: str) -> Extracted:
        try:
            return self._worker.extract("html", body, content_type, url)
        except Unreadable as error:  # markup that no parser survives still has its text
            crude = self._worker.extract("crude", body, content_type, url)
            return Extracted(crude.title, crude.text, (*crude.notes, str(error)))

    def close(self) -> None:
        self._worker.close()


def _data_notes(kind: Kind, text: str) -> tuple[str, ...]:
    """How large a table is: a reader sees a window of it."""
    if kind != "csv":
        return ()
    rows = text.count("\n") + (not text.endswith("\n"))
    return (f"{rows:,} lines",) if rows > 20 else ()
