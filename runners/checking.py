"""What a person sees while a store is checked after an exit that was not clean."""

from __future__ import annotations

import sys

MB = 1_000_000


def tell_checking(size: int, seconds: float) -> None:
    """A line on stderr; on a terminal one that is written over. A check that takes no time says nothing."""
    if seconds == 0:
        return
    line = f"the last run of this session did not end in order: checking {size / MB:,.0f} MB, {seconds:.1f} s"
    sys.stderr.write(f"\r{line}" if sys.stderr.isatty() else f"{line}\n")
    sys.stderr.flush()
