"""What a person sees while a store is checked after an exit that was not clean."""

from __future__ import annotations

import sys

MB = 1_000_000
SOON = 0.5
"""Seconds of a check of which nothing is said."""


def tell_checking(size: int, seconds: float, done: bool) -> None:
    """On a terminal a line on stderr that is written over, elsewhere one at the end."""
    terminal = sys.stderr.isatty()
    if seconds < SOON or not (terminal or done):
        return
    line = f"checking the session's store, {size / MB:,.0f} MB: {seconds:.1f} s{', done' if done else ''}"
    sys.stderr.write(f"{chr(13) if terminal else ''}{line}{chr(10) if done else ''}")
    sys.stderr.flush()
