"""Limits by the clock on a machine that other work keeps busy."""

from __future__ import annotations

import os


def slack() -> float:
    """How many times as long as on a quiet machine something may take: processes that want each core, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
