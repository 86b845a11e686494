"""Logging of the command line: to stderr, with every known secret cut out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from runners.environment import Secret
from runners.redact import Redactor

_CHATTY = ("httpx", "httpcore", "openai", "anthropic", "asyncio")
_REPEATING = ("mcp", "client")
"""The MCP SDK tells of every fault of a server with its traceback; each comes back as an error as well."""


class RedactingFormatter(logging.Formatter):
    """Formats a record, tracebacks included, and replaces the secrets in the result by ``***``."""

    def __init__(self, secrets: Iterable[Secret], fmt: str | None = None) -> None:
        super().__init__(fmt)
        self._redact = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def setup_logging(level: str, secrets: Mapping[str, Secret] | None = None) -> None:
    """Log ``level`` and above to stderr; libraries that log every request only from ``debug``."""
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, markup=False, highlighter=None)
    handler.setFormatter(RedactingFormatter((secrets or {}).values(), "%(name)s: %(message)s"))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    for name in _REPEATING:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.CRITICAL)
