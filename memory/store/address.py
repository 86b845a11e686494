"""Where a session is that is no file: ``postgresql://user@host:port/database#session``."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

SCHEMES = ("postgresql", "postgres")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a session may be called."""
_PASSWORD = re.compile(
    r"(postgres(?:ql)?:/{1,2}[^\s:/@]{0,99}:)\S{0,999}@|([A-Za-z][\w+.-]{1,20}:/{1,2}[^\s:/@]{0,99}:)[^\s/]{0,999}@",
    re.I,
)
_NAMED = re.compile(r"([?&]\w{0,20}password=)[^&\s#]+")
_UNREADABLE = re.compile("%(?![0-9A-Fa-f]{2})|%00")
_NETLOC = re.compile(r"(?:[^\s/?#@]*@)?(?:(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:,@\[\]]*)(?::\d+)?(?:,|$))*")
"""Who, and hosts with their ports; a password in it has its special characters percent-encoded."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database, and a session in it; ``session`` is empty where the whole database is meant."""

    url: str = field(repr=False)
    """For the driver; may hold a password."""
    session: str = ""

    @property
    def database(self) -> str:
        """The database for people and records: without a password."""
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        plain = user.partition(":")[0] + at + host
        query = urlencode([(k, v) for k, v in parse_qsl(parts.query) if "password" not in k], quote_via=quote, safe="/")
        return f"{parts.scheme}://{plain}{parts.path or '/'}{'?' if query else ''}{query}"

    def __str__(self) -> str:
        return f"{self.database}#{self.session}" if self.session else self.database

    @property
    def passwords(self) -> tuple[str, ...]:
        """What must not be shown, as it may stand in a message."""
        parts = urlsplit(self.url)
        found = [value for key, value in parse_qsl(parts.query) if "password" in key]
        written = parts.netloc.rpartition("@")[0].partition(":")[2]
        raw = [one.partition("=")[2] for one in parts.query.split("&") if "password" in unquote(one.partition("=")[0])]
        return tuple(dict.fromkeys(value for value in (*found, *raw, written, unquote(written)) if value))

    def of(self, session: str) -> Address:
        """A session of the same database."""
        return Address(self.url, session)


def is_address(text: str) -> bool:
    """Whether a text names a database rather than a folder."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def masked(text: str) -> str:
    """A text for people without the password of any address in it, of ``scheme:/…`` as well, which paths make of it."""
    return _NAMED.sub(r"\1***", _PASSWORD.sub(r"\1\2***@", text))


def parse_address(text: str) -> Address:
    """``postgresql://…`` with or without ``#session``. Raises ValueError, without the text in it."""
    if not is_address(text):
        raise ValueError("an address begins with postgresql://")
    url, _, session = text.partition("#")
    url = f"postgresql://{url.partition('://')[2]}"
    if not _split(url).path.strip("/"):
        raise ValueError("an address names a database, as in postgresql://user@host:5432/database")
    if session and not NAME.fullmatch(session):
        raise ValueError("the name of a session is letters, digits, dots, dashes and underscores")
    return Address(url, session)


def _split(url: str) -> SplitResult:
    """Raises ValueError for what would be taken for something else than was meant, without the text in it."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if (
            url.isprintable()
            and not _UNREADABLE.search(url)
            and _NETLOC.fullmatch(parts.netloc)
            and "@" not in parts.path
        ):
            return parts
    raise ValueError(
        "an address is postgresql://user@host:port/database#session, with special characters of a password"
        " percent-encoded, or better without a password"
    )
