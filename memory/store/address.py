"""Where a session is that is no file: ``postgresql://user@host:port/database#session``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

SCHEMES = ("postgresql", "postgres")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a session may be called."""
_PASSWORD = re.compile(r"([A-Za-z][\w+.-]+:/{1,2}[^\s:/@]*:)[^\s/]*@")


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
        return urlunsplit((parts.scheme, plain, parts.path or "/", query, ""))

    def __str__(self) -> str:
        return f"{self.database}#{self.session}" if self.session else self.database

    @property
    def passwords(self) -> tuple[str, ...]:
        """What must not be shown, as it may stand in a message."""
        parts = urlsplit(self.url)
        found = [value for key, value in parse_qsl(parts.query) if "password" in key]
        written = parts.netloc.rpartition("@")[0].partition(":")[2]
        return tuple(dict.fromkeys(value for value in (*found, written, unquote(written)) if value))

    def of(self, session: str) -> Address:
        """A session of the same database."""
        return Address(self.url, session)


def is_address(text: str) -> bool:
    """Whether a text names a database rather than a folder."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def masked(text: str) -> str:
    """A text for people without the password of any address in it, of ``scheme:/…`` as well, which paths make of it."""
    return _PASSWORD.sub(r"\1***@", text)


def parse_address(text: str) -> Address:
    """``postgresql://…`` with or without ``#session``. Raises ValueError, without the text in it."""
    if not is_address(text):
        raise ValueError("an address begins with postgresql://")
    url, _, session = text.partition("#")
    if not urlsplit(url).path.strip("/"):
        raise ValueError("an address names a database, as in postgresql://user@host:5432/database")
    if session and not NAME.fullmatch(session):
        raise ValueError("the name of a session is letters, digits, dots, dashes and underscores")
    return Address(url, session)
