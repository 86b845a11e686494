"""What the store's SQL needs of a database: the same statements run on SQLite and, through a link, on PostgreSQL.

Statements are written for SQLite, in what both understand: ``?`` for a value, no ``OR REPLACE``, no named conflict.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

LARGEST = 2**63 - 1
"""The largest number that a column holds: stands for "no limit"."""
AMONG = "IN (SELECT value FROM json_each(?))"
"""One of `Numbers`."""


class Rows(Protocol):
    """The outcome of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One connection to the database of a session, within a transaction. `sqlite3.Connection` is one."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, statement: str, rows: Iterable[Any], /) -> object: ...


class Numbers(tuple[int, ...]):
    """Whole numbers, as the one value of `AMONG`."""

    __slots__ = ()

    def __new__(cls, numbers: Iterable[Any]) -> Numbers:
        return super().__new__(cls, map(int, numbers))

    def __conform__(self, protocol: object) -> str | None:
        """Asked by sqlite3, which knows no lists."""
        return json.dumps(self) if protocol is sqlite3.PrepareProtocol else None
