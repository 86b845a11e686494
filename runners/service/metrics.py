"""What the service counts, as Prometheus text."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator

from runners.service.vectors import CacheFigures

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5)
"""Upper bounds, seconds."""
RECENT = 1_000
"""Selections that the fallback rate is over, the callers' own fallbacks included."""


class Metrics:
    """Counters of one process. Called from the event loop only."""

    def __init__(self) -> None:
        self.selections: Counter[tuple[str, str]] = Counter()
        """By strategy and outcome: selected, irrelevant, encoder."""
        self.requests: Counter[tuple[str, int]] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.used = self.kept = 0
        self.busy = 0
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._recent: deque[bool] = deque(maxlen=RECENT)

    def selected(self, strategy: str, recency: str, seconds: float, fallbacks: int) -> None:
        """One selection, and how often its caller fell back before it."""
        self.selections[strategy, recency or "selected"] += 1
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds
        failed = recency == "encoder"
        self.fallbacks["encoder"] += failed
        self.fallbacks["client"] += fallbacks
        self._recent.extend([True] * min(fallbacks, RECENT))
        self._recent.append(failed)

    def fallback_rate(self) -> float:
        """Share of the recent selections that recency made because something failed."""
        return sum(self._recent) / len(self._recent) if self._recent else 0.0

    def text(self, cache: CacheFigures, sessions: int, streams: int) -> str:
        """The exposition, format 0.0.4."""
        return "\n".join(self._lines(cache, sessions, streams)) + "\n"

    def _lines(self, cache: CacheFigures, sessions: int, streams: int) -> Iterator[str]:
        yield from _head("selections_total", "counter", "selections by strategy and outcome")
        for (strategy, outcome), count in sorted(self.selections.items()):
            yield f'longstride_selections_total{{strategy="{strategy}",outcome="{outcome}"}} {count}'
        yield from _head("requests_total", "counter", "answers by route and status")
        for (route, status), count in sorted(self.requests.items()):
            yield f'longstride_requests_total{{route="{route}",status="{status}"}} {count}'
        yield from self._histogram()
        yield from _head("fallbacks_total", "counter", "selections by recency because something failed")
        for by in ("client", "encoder"):
            yield f'longstride_fallbacks_total{{by="{by}"}} {self.fallbacks[by]}'
        yield from _gauge("fallback_rate", f"share of the last {RECENT} selections", self.fallback_rate())
        yield from _gauge(
            "recall_estimate", "share kept of strings used later", self.kept / self.used if self.used else 1
        )
        yield from _counter("used_strings_total", "strings of candidates that were used later", self.used)
        yield from _counter("used_strings_kept_total", "those that stood in a kept candidate", self.kept)
        yield from _counter("busy_total", "selections refused because too many waited", self.busy)
        yield from _counter("cache_hits_total", "candidates whose key was known", cache.hits)
        yield from _counter("cache_misses_total", "candidates whose key was made", cache.misses)
        yield from _gauge("cache_bytes", "bytes of the keys held", cache.bytes)
        yield from _gauge("cache_entries", "keys held", cache.entries)
        yield from _gauge("sessions_open", "sessions held open", sessions)
        yield from _gauge("streams_open", "streams of events", streams)

    def _histogram(self) -> Iterator[str]:
        yield from _head("selection_seconds", "histogram", "time of a selection, waiting included")
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'longstride_selection_seconds_bucket{{le="{bound}"}} {total}'
        yield f"longstride_selection_seconds_sum {self._seconds:.6f}"
        yield f"longstride_selection_seconds_count {total}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP longstride_{name} {about}"
    yield f"# TYPE longstride_{name} {kind}"


def _gauge(name: str, about: str, value: float) -> Iterator[str]:
    yield from _head(name, "gauge", about)
    yield f"longstride_{name} {value:g}"


def _counter(name: str, about: str, value: int) -> Iterator[str]:
    yield from _head(name, "counter", about)
    yield f"longstride_{name} {value}"
