"""What is said of a check: nothing of a quick one, a line that is written over on a terminal, one line elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from runners.checking import tell_checking


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, patch: pytest.MonkeyPatch, *moments: tuple[float, bool]) -> str:
    patch.setattr(sys, "stderr", stream)
    for seconds, done in moments:
        tell_checking(412_000_000, seconds, done)
    return stream.getvalue()


def test_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(Terminal(), monkeypatch, (0.0, False), (0.2, False), (0.3, True)) == ""
    long = ((0.0, False), (0.6, False), (0.8, False), (1.0, True))
    assert told(io.StringIO(), monkeypatch, *long) == "checking the session's store, 412 MB: 1.0 s, done\n"
    first, *rest = told(Terminal(), monkeypatch, *long).split("\r")
    assert (first, len(rest)) == ("", 3)
    assert rest[-1].endswith("1.0 s, done\n")
