"""Keyless search, with a stand-in for the package: what is asked of it, and what becomes of its failures."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from tools.base import ToolError
from tools.search.ddgs import DdgsProvider


class Failed(Exception):
    """Root of the package's errors."""


class Limited(Failed):
    """Its error for a rate limit."""


class Late(Failed):
    """Its error for a timeout."""


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package as version 9 has it: `DDGS(timeout).text(query, region, timelimit, max_results)`."""
    made, exceptions = ModuleType("ddgs"), ModuleType("ddgs.exceptions")
    for name, error in (("DDGSException", Failed), ("RatelimitException", Limited), ("TimeoutException", Late)):
        setattr(exceptions, name, error)
    asked: list[tuple[Any, ...]] = []

    class Ddgs:
        def __init__(self, timeout: int) -> None:
            assert isinstance(timeout, int)

        def text(self, query: str, *, region: str, timelimit: str | None, max_results: int) -> list[dict[str, str]]:
            asked.append((query, region, timelimit, max_results))
            if isinstance(made.outcome, Exception):  # type: ignore[attr-defined]
                raise made.outcome  # type: ignore[attr-defined]
            return made.outcome  # type: ignore[attr-defined,no-any-return]

    made.DDGS, made.outcome, made.asked = Ddgs, [], asked  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ddgs", made)
    monkeypatch.setitem(sys.modules, "ddgs.exceptions", exceptions)
    return made


async def test_hits(package: Any) -> None:
    package.outcome = [
        {"title": "A", "href": "https://a.test/", "body": "about a"},
        {"title": "B", "href": "javascript:x", "body": ""},
        {"href": "https://c.test/"},
    ]
    hits = await DdgsProvider().search("x", 5, "de", "2001-01-01")
    assert [(hit.title, hit.url, hit.snippet, hit.source) for hit in hits] == [
        ("A", "https://a.test/", "about a", "ddgs"), ("", "https://c.test/", "", "ddgs"),
    ]  # fmt: skip
    await DdgsProvider().search("y", 3)
    assert package.asked == [("x", "de-de", "y", 5), ("y", "wt-wt", None, 3)]


@pytest.mark.parametrize(
    ("error", "kind"), [(Limited("202"), "limit"), (Late("late"), "timeout"), (Failed("odd"), "network")]
)
async def test_failures(package: Any, error: Exception, kind: str) -> None:
    package.outcome = error
    with pytest.raises(ToolError) as failure:
        await DdgsProvider().search("x", 5)
    assert failure.value.kind == kind


async def test_no_results_are_no_failure(package: Any) -> None:
    package.outcome = Failed("No results found.")
    assert await DdgsProvider().search("x", 5) == []


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'longstride\[search\]'"):
        DdgsProvider()
