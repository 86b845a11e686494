"""Streaming decompression with a ceiling: 590 bytes of double gzip become 268 MB in a decoder without one."""

from __future__ import annotations

import zlib

from tools.base import ToolError

MAX_RATIO = 200
_RATIO_FROM = 1_000_000
_STEP = 65_536


class BoundedDecoder:
    """Decodes at most one ``Content-Encoding``; stops at ``max_raw`` bytes in or ``max_decoded`` bytes out.

    `full` tells that a ceiling was reached: what was decoded until then stands in `body`.
    """

    def __init__(self, encoding: str, *, max_raw: int, max_decoded: int) -> None:
        """Raises ToolError ``unsupported`` for several or unknown encodings."""
        codings = [
            name for name in (part.strip().lower() for part in encoding.split(",")) if name not in ("", "identity")
        ]
        if len(codings) > 1:
            raise ToolError(
                "unsupported", f"the server compressed the page {len(codings)} times; such pages are not read"
            )
        self._coding = codings[0].removeprefix("x-") if codings else ""
        if self._coding not in ("", "gzip", "deflate"):
            raise ToolError(
                "unsupported", f"the server sent an encoding that was not asked for ({self._coding[:40]!r})"
            )
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16 if self._coding == "gzip" else zlib.MAX_WBITS)
        self._raw = 0
        self._max_raw, self._max_decoded = max_raw, max_decoded
        self.body = bytearray()
        self.full = False

    def feed(self, data: bytes) -> None:
        """Raises ToolError ``parse`` for a damaged stream, ``too_large`` for a bomb."""
        if self.full:
            return
        room = self._max_raw - self._raw
        if len(data) > room:
            data, self.full = data[:room], True
        first = self._raw == 0
        self._raw += len(data)
        if not self._coding:
            self._append(data)
            return
        try:
            self._decode(data)
        except zlib.error as error:
            if not (first and self._coding == "deflate"):
                raise ToolError("parse", "the page is compressed with errors") from error
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # raw deflate, as some servers send it
            self._decode_raw(data)

    @property
    def cut(self) -> bool:
        """Whether the compressed stream lacks its end."""
        return bool(self._coding) and self._raw > 0 and not self._inflate.eof

    def _decode_raw(self, data: bytes) -> None:
        try:
            self._decode(data)
        except zlib.error as error:
            raise ToolError("parse", "the page is compressed with errors") from error

    def _decode(self, data: bytes) -> None:
        while data and len(self.body) < self._max_decoded and not self._inflate.eof:
            self._append(self._inflate.decompress(data, _STEP))
            data = self._inflate.unconsumed_tail
            if len(self.body) > _RATIO_FROM and len(self.body) > MAX_RATIO * self._raw:
                raise ToolError("too_large", "the page is a decompression bomb")

    def _append(self, data: bytes) -> None:
        room = self._max_decoded - len(self.body)
        self.body += data[:room]
        if len(data) > room or len(self.body) >= self._max_decoded:
            self.full = True
