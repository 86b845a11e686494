"""A circuit breaker: after failures in a row a service is left alone for a while, then tried by one caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Open for ``window_s`` after ``failures`` in a row; then one call is let through, whose outcome decides.
    Thread-safe."""

    def __init__(self, failures: int, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = failures
        self._window_s = window_s
        self._clock = clock
        self._failed = 0
        self._until = 0.0
        self._trying = False
        self._lock = threading.Lock()

    def admits(self) -> bool:
        """Whether to call now. Who is admitted must tell `done`."""
        with self._lock:
            if self._failed < self._limit:
                return True
            if self._trying or self._clock() < self._until:
                return False
            self._trying = True
            return True

    def done(self, well: bool) -> None:
        """How an admitted call went."""
        with self._lock:
            self._trying = False
            self._failed = 0 if well else self._failed + 1
            if self._failed >= self._limit:
                self._until = self._clock() + self._window_s
