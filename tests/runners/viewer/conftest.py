"""Sessions to look at, made once for all tests of the viewer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.runners.viewer.made import hostile_session, make_session, page_of


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the sessions ``plain`` and ``hostile``."""
    made = tmp_path_factory.mktemp("home")
    asyncio.run(_make(made))
    return made


async def _make(home: Path) -> None:
    for session in (await make_session(home, "plain"), await hostile_session(home)):
        (home / f"{session.name}.html").write_text(await page_of(session), "utf-8")


@pytest.fixture(scope="package")
def files(home: Path) -> tuple[Path, Path]:
    """Their pages."""
    return home / "plain.html", home / "hostile.html"
