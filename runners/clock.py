"""The system's clock, as the memory and the limits ask for it."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time and a monotonic clock."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
