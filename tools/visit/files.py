"""Files and bodies of every kind to text: cheap kinds here, HTML and PDF in the extraction child."""

from __future__ import annotations

import re

from tools.visit.charset import decode
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.sniff import sniff
from tools.visit.worker import ExtractionWorker

_HEADING = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)


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
        if kind == "pdf":
            return self._worker.extract("pdf", body, content_type, url)
        if kind == "html":
            return self._html(body, content_type, url)
        text = decode(body, content_type)[0].replace("\0", "")
        heading = _HEADING.search(text[:5000]) if kind == "markdown" else None
        return Extracted(heading[1] if heading else "", text)

    def _html(self, body: bytes, content_type: str, url: str) -> Extracted:
        try:
            return self._worker.extract("html", body, content_type, url)
        except Unreadable as error:  # markup that no parser survives still has its text
            crude = self._worker.extract("crude", body, content_type, url)
            return Extracted(crude.title, crude.text, (*crude.notes, str(error)))

    def close(self) -> None:
        self._worker.close()
