"""What is looked at when a store is opened: whether its last user left it in order, and if not, whether it is whole."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from memory.errors import StoreCorrupt
from memory.store import owner, reads

CLEAN = "store.clean"
"""Key in ``meta``: "0" from the first write on, "1" again when the store was closed in order."""
TICK = 100_000
"""Steps of SQLite's machine between two looks at the clock."""
EVERY_S = 0.2
Checking: TypeAlias = Callable[[int, float, bool], None]
"""Told while a store is checked: its size in bytes, seconds so far, whether it is done. Called from the store's own
thread."""


def check_opened(connection: sqlite3.Connection, outdated: bool, checking: Checking | None = None) -> bool:
    """Refuse a damaged file, and to migrate one in use. What is being written now was checked by its owner.

    Returns whether the file was not left in order and is whole all the same.
    """
    held = owner.current(connection)
    if held is not None and held.alive():
        if outdated:
            raise owner.busy(held)
        return False
    if reads.meta(connection, CLEAN) in (None, "1"):
        return False
    problems = quick_check(connection, checking)
    if problems:
        raise StoreCorrupt("the store is damaged: " + "; ".join(problems), hint="restore it from a copy")
    return True


def quick_check(connection: sqlite3.Connection, checking: Checking | None = None) -> list[str]:
    """What PRAGMA quick_check finds, at most five lines; empty for a whole file."""
    with watched(connection, checking):
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
    return [] if found == ["ok"] else found


@contextlib.contextmanager
def watched(connection: sqlite3.Connection, checking: Checking | None) -> Iterator[None]:
    """Tell ``checking`` how long the statements inside have been running."""
    if checking is None:
        yield
        return
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    started = told = time.monotonic()
    checking(pages * page, 0.0, False)

    def tick() -> int:
        nonlocal told
        now = time.monotonic()
        if now - told >= EVERY_S:
            told = now
            checking(pages * page, now - started, False)
        return 0

    connection.set_progress_handler(tick, TICK)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        checking(pages * page, time.monotonic() - started, True)
