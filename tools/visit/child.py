"""The extraction child: reads framed jobs from stdin, writes framed results to stdout, until stdin closes.

A frame is a line of JSON with ``size``, then that many bytes. Everything here may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from typing import BinaryIO

from tools.visit.extracted import Extracted, Unreadable

MEMORY_BYTES = 2 << 30
_SOFT_SHARE = 0.7


def main() -> None:
    """Serve until stdin closes. Anything that libraries print goes to the void, not into the frames."""
    jobs, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    void = os.open(os.devnull, os.O_WRONLY)
    os.dup2(void, 1)
    os.dup2(void, 2)
    _limit_memory()
    while line := jobs.readline():
        job = json.loads(line)
        body = jobs.read(job["size"])
        _write(results, _done(job, body))


def _done(job: dict[str, str], body: bytes) -> dict[str, object]:
    try:
        found = _extract(job["kind"], body, job["content_type"], job["url"], float(job["limit_s"]))
    except Unreadable as error:
        return {"failed": str(error), "kind": error.kind}
    except MemoryError:
        return {"failed": "the document needs too much memory", "kind": "too_large"}
    except Exception as error:  # noqa: BLE001 - supervised border: whatever a parser throws is the document's failure
        return {"failed": f"extraction failed ({type(error).__name__}: {error})"[:300]}
    return {"title": found.title, "text": found.text, "notes": list(found.notes), "whole": found.whole}


def _extract(kind: str, body: bytes, content_type: str, url: str, limit_s: float) -> Extracted:
    if kind == "pdf":
        from tools.visit.pdf_text import pdf_text

        return pdf_text(body, limit_s * _SOFT_SHARE)
    if kind in ("xlsx", "xls", "docx", "pptx", "odf"):
        from tools.visit.office import office_text

        return office_text(kind, body, limit_s * _SOFT_SHARE)
    if kind == "ipynb":
        from tools.visit.notebook import notebook_text

        return notebook_text(body)
    from tools.visit.html_text import html_text

    return html_text(body, content_type, url, crude=kind == "crude")


def _write(stream: BinaryIO, answer: dict[str, object]) -> None:
    content = json.dumps(answer).encode()
    stream.write(b'{"size": %d}\n' % len(content))
    stream.write(content)
    stream.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this platform
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
