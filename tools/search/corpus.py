"""A local corpus as a search provider: a folder, a JSONL of pages, or ``pydoc:``, indexed, searched and served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tools.search.base import CorpusFault, Hit
from tools.search.folder import FolderPages, Reader
from tools.search.index import CorpusIndex, Progress
from tools.search.jsonl import JsonlPages
from tools.search.python_docs import PythonDocs
from tools.search.server import CORPUS_HOST, CorpusServer, page_url
from tools.search.snippet import snippet
from tools.search.sources import PageSource

PYDOC = "pydoc:"
_JSONL = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")


class LocalCorpus:
    """A `SearchProvider` over an index that is up to date, with its server running. Made by `open`."""

    name = "corpus"

    def __init__(self, index: CorpusIndex) -> None:
        self._index = index
        self._server = CorpusServer(index)

    @classmethod
    def open(
        cls, spec: str, cache: Path, *, reader: Reader | None = None, progress: Progress | None = None
    ) -> LocalCorpus:
        """Index (only what changed) and serve a corpus. Blocks: seconds for a large one, so call it off the loop.

        ``spec``: ``pydoc:``, a folder, or a JSONL file. ``cache``: the folder that holds indexes. ``reader`` turns a
        file of a folder into text (default: extraction in a child process). Raises CorpusFault.
        """
        owned = None
        if reader is None and spec != PYDOC and Path(spec).expanduser().is_dir():
            from tools.visit.files import FileReader

            owned = FileReader()
            reader = owned.read
        index = CorpusIndex(cache, _source(spec, reader))
        try:
            index.update(progress)
            if not len(index):
                reasons = "; ".join(f"{name}: {note}" for name, note in list(index.notes().items())[:3])
                raise CorpusFault(
                    f"nothing readable in the corpus {spec!r}" + (f" ({reasons})" if reasons else ""),
                    hint="a corpus is a folder of html, md, txt or pdf files, a .jsonl of pages, or pydoc:",
                )
            return cls(index)
        except BaseException:
            index.close()
            raise
        finally:
            if owned is not None:
                owned.close()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def hosts(self) -> Mapping[str, str]:
        """The logical host and where it is now, for the HTTP client: ``{"corpus.local": "127.0.0.1:port"}``."""
        return {CORPUS_HOST: self._server.address}

    @property
    def notes(self) -> Mapping[str, str]:
        """Files that gave no page, or were left out, with the reason."""
        return self._index.notes()

    async def search(self, query: str, n: int, lang: str | None = None, since: str | None = None) -> list[Hit]:
        return await asyncio.to_thread(self._search, query, n)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._server.close)
        self._index.close()

    def _search(self, query: str, n: int) -> list[Hit]:
        return [
            Hit(page.title, page_url(page.path), snippet(page.text, query), page.date, self.name)
            for page in self._index.search(query, n)
        ]


def _source(spec: str, reader: Reader | None) -> PageSource:
    if spec == PYDOC:
        return PythonDocs()
    path = Path(spec).expanduser()
    if not path.exists():
        raise CorpusFault(f"no such corpus: {spec!r}", hint="give a folder, a .jsonl file of pages, or pydoc:")
    if path.is_dir():
        assert reader is not None
        return FolderPages(path, reader, f"http://{CORPUS_HOST}/")
    if path.name.lower().endswith(_JSONL):
        return JsonlPages(path)
    raise CorpusFault(f"not a corpus: {spec!r}", hint="give a folder, a .jsonl file of pages, or pydoc:")
