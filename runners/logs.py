"""Logging of the command line: to stderr, with every known secret cut out, whichever handler a library adds."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType

from runners.environment import Secret
from runners.redact import Redactor

_CHATTY = ("httpx", "httpcore", "openai", "anthropic", "asyncio")
_REPEATING = ("mcp", "client", "psycopg")
"""They tell of every fault of a server, the MCP SDK with its traceback; each comes back as an error as well."""


class RedactingFormatter(logging.Formatter):
    """Formats a record, tracebacks included, and replaces the secrets in the result by ``***``."""

    def __init__(self, secrets: Iterable[Secret], fmt: str | None = None) -> None:
        super().__init__(fmt)
        self._redact = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def setup_logging(level: str, secrets: Mapping[str, Secret] | None = None) -> None:
    """Log ``level`` and above to stderr; libraries that log every request only from ``debug``.

    Of the whole process: the records themselves hold no secret, and no traceback that ends the program shows one.
    """
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, markup=False, highlighter=None)
    handler.setFormatter(RedactingFormatter((secrets or {}).values(), "%(name)s: %(message)s"))
    redact = Redactor((secrets or {}).values())
    logging.setLogRecordFactory(partial(_record, redact))
    sys.excepthook = partial(_last_words, redact)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    for name in _REPEATING:
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.CRITICAL)


def _record(redact: Redactor, *given: object, **named: object) -> logging.LogRecord:
    """A record whose text, and the text of its traceback, are final and without secrets."""
    record = logging.LogRecord(*given, **named)  # type: ignore[arg-type]
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # arguments that do not fit: logging would print them as they are
        text = f"{record.msg} {record.args}"
    record.msg, record.args = redact(text), None
    if record.exc_info and record.exc_info[0]:
        record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
    return record


def _last_words(redact: Redactor, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))
