"""Every place that a session may be in: what the tests of the store's rules run on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.memory.store.places import Place
from tests.support.postgres import Server


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    """Makes places for new sessions; on the server they share one database."""
    counted = itertools.count(1)
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("stores")
        return lambda: Place(folder / f"s{next(counted)}.db")
    server: Server = request.getfixturevalue("postgres")
    database = server.database()
    return lambda: Place(database.of(f"s{next(counted)}"))


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()
