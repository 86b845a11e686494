"""What the service remembers of selections: a sampled log for people, and enough of the last ones to judge them by."""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from collections import OrderedDict
from pathlib import Path
from sys import getsizeof

from runners.redact import Redactor
from runners.replay.strings import is_marked, tokens
from runners.service.explain import explain
from runners.service.selecting import Ask, Selected, Working

_LOG_BYTES = 16 * 1024 * 1024
"""Of the log; then it becomes the old one, and the one before is gone."""
_HELD = 32_000_000
"""Bytes that recent selections take, at most."""
_ROW, _HEAD = 150, 1_000
"""What a candidate and a selection take besides their texts."""
_QUERY_CHARS = 500
_log = logging.getLogger(__name__)


class DebugLog:
    """A share of the selections as JSON lines: the query (clipped, secrets out), and of each candidate its id, size,
    score, gain and reason; no texts."""

    def __init__(self, path: Path, share: float, redact: Redactor) -> None:
        self._path = path
        self._share = share
        self._redact = redact
        self._chance = random.Random()
        self._complained = False

    def wants(self) -> bool:
        """Whether the next one is to be written."""
        return self._chance.random() < self._share

    def write(self, name: str, selected: Selected, working: Working, seconds: float) -> None:
        """Blocking; one thread at a time. A log that cannot be written is no reason to fail."""
        ask = working.ask
        row = {
            "selection": name,
            "time": time.time(),
            "query": ask.query[:_QUERY_CHARS],
            "strategy": ask.strategy,
            "budget": ask.budget,
            "tokens": selected.tokens,
            "recency": selected.recency,
            "objective": selected.objective,
            "upper_bound": selected.upper_bound,
            "seconds": round(seconds, 6),
            "candidates": [
                [one.id, one.kept, one.tokens, round(one.score, 4), one.order, one.gain, one.reason]
                for one in explain(working)
            ],
        }
        try:
            self._append(self._redact(json.dumps(row, ensure_ascii=False)) + "\n")
        except OSError as fault:
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            _log.log(level, "the log of selections cannot be written: %s", fault)

    def _append(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > _LOG_BYTES:
            self._path.replace(self._path.with_suffix(".old.jsonl"))
        with self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line)


class Recent:
    """The last selections, bounded by what they take: whose kept candidates held what was used later."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[Ask, frozenset[str], int]] = OrderedDict()
        self._bytes = 0

    def add(self, ask: Ask, selected: Selected) -> str:
        """Returns the name that the selection is known by."""
        name = f"s{secrets.token_hex(6)}"
        size = _HEAD + getsizeof(ask.query)
        size += sum(_ROW + getsizeof(one.id) + getsizeof(one.text) for one in ask.candidates)
        self._held[name] = (ask, frozenset(selected.ids), size)
        self._bytes += size
        while self._bytes > _HELD and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1][2]
        return name

    def used(self, name: str, text: str) -> tuple[int, int] | None:
        """(strings of ``text`` that were new to the query and stood in a candidate, those that stood in a kept one);
        None for a selection that is not held any more. Counted are numbers, addresses and names, as whole tokens."""
        held = self._held.get(name)
        if held is None:
            return None
        ask, kept, _ = held
        words = tokens(text)
        wanted = {word for word in words if is_marked(word, words)} - tokens(ask.query)
        anywhere: set[str] = set()
        shown: set[str] = set()
        for one in ask.candidates:
            here = {word for word in wanted if word in one.text}
            here &= tokens(one.text) if here else here
            anywhere |= here
            if one.id in kept:
                shown |= here
        return len(anywhere), len(shown)
