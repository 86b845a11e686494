"""Fidelity of a whole recording's views: measured together, as one by one, and once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.encoders.hashing import HashingEncoder
from memory.records import Level, View
from memory.summaries.config import SummaryConfig
from memory.summaries.fidelity import measured
from memory.tokens import ScriptCounter
from runners.replay.prepare import Toolkit, fidelities
from runners.replay.views import ViewCache

FULLS = ["The ferry Amalia sails at 9:40. It rained.\n", "Short.", "Berlin, Paris and Rome. Nothing else.", "Refused."]
VIEWS = [["The ferry sails at 9:40.", "Ferry."], ["Short.", "Short."], ["Berlin, Paris and Rome.", "Short."], []]


class Counting(HashingEncoder):
    """Remembers what it was given, call by call."""

    def __init__(self) -> None:
        super().__init__(64)
        self.calls: list[list[str]] = []

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return super().encode_documents(texts)


def test_views_are_measured_together_and_once(tmp_path: Path) -> None:
    encoder = Counting()
    keys = encoder.encode_documents(FULLS)
    encoder.calls.clear()
    tools = Toolkit(encoder, ScriptCounter(), SummaryConfig(), views=ViewCache(tmp_path, "one"))
    found = fidelities(tools, FULLS, keys, VIEWS)
    # a view that is the whole text needs no vector; the same text is encoded once
    assert encoder.calls == [["The ferry sails at 9:40.", "Ferry.", "Berlin, Paris and Rome.", "Short."]]
    for full, key, texts, scores in zip(FULLS, keys, VIEWS, found, strict=True):
        views = [View(1, Level.DETAILED, text, 0) for text in texts]
        cosines = (HashingEncoder(64).encode_documents(texts) @ key).astype(np.float64)
        assert [view.fidelity for view in measured(views, full, cosines)] == list(scores)
    assert found[1] == (1.0, 1.0)
    assert fidelities(tools, FULLS, keys, VIEWS) == found
    assert len(encoder.calls) == 1
