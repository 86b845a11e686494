"""Serves a corpus over HTTP on a loopback port, so that ``visit`` reads it exactly as it reads the web.

Addresses hold the logical host (``http://corpus.local/…``), never the port, so they outlive the process.
"""

from __future__ import annotations

import html
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

from tools.search.index import CorpusIndex, FoundPage

CORPUS_HOST = "corpus.local"
TEXT_OPEN = '<pre id="text">'
TEXT_CLOSE = "</pre>"
_LISTED = 500


def page_url(path: str) -> str:
    """The stable address of a corpus page."""
    return f"http://{CORPUS_HOST}/{quote(path, safe='/')}"


class CorpusServer:
    """A running server of one index. Threads are daemons; `close` stops it and frees the port."""

    def __init__(self, index: CorpusIndex) -> None:
        class Handler(_Handler):
            corpus = index

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="corpus-server", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    corpus: CorpusIndex
    server_version = "corpus"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: visits are recorded by the tool."""

    def _answer(self, *, with_body: bool) -> None:
        host = self.headers.get("Host", "").split(":")[0].lower()
        if host not in (CORPUS_HOST, "127.0.0.1"):  # a browser tab that rebound some other name to us
            status, kind, body = HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "not a host of this corpus"
        else:
            status, kind, body = self._page(unquote(urlsplit(self.path).path).lstrip("/"))
        content = body.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def _page(self, path: str) -> tuple[HTTPStatus, str, str]:
        if not path:
            links = "".join(
                f'<li><a href="{html.escape(page_url(at))}">{html.escape(title)}</a></li>\n'
                for at, title in self.corpus.paths(_LISTED)
            )
            listing = f"<p>{len(self.corpus)} pages; the first {_LISTED} by address:</p><ul>\n{links}</ul>"
            return HTTPStatus.OK, "text/html", _document("Local corpus", listing)
        page = self.corpus.page(path)
        if page is None:
            return HTTPStatus.NOT_FOUND, "text/plain", f"no page {path!r} in this corpus; find pages with search"
        return HTTPStatus.OK, "text/html", render(page)


def render(page: FoundPage) -> str:
    """A page as HTML. The text is kept whole and literal, line breaks and indentation included."""
    text = page.text.replace("\r\n", "\n").replace("\r", "\n")
    heading = f"<h1>{html.escape(page.title)}</h1>\n"
    # a newline right after <pre> is dropped by parsers: ours keeps the text's own first line break
    return _document(page.title, f"{heading}{TEXT_OPEN}\n{html.escape(text)}{TEXT_CLOSE}")


def _document(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>pre{white-space:pre-wrap}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def page_text(document: str) -> tuple[str, str] | None:
    """(title, text) of a document made by `render`, None when it is not one."""
    start, end = document.find(TEXT_OPEN), document.rfind(TEXT_CLOSE)
    if start < 0 or end < start:
        return None
    title = document.partition("<title>")[2].partition("</title>")[0]
    return html.unescape(title), html.unescape(document[start + len(TEXT_OPEN) : end].removeprefix("\n"))
