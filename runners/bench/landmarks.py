"""What every worker of a cluster has to find before it works: the folder, or the database, of the sessions."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memory.errors import MemoryFault
from memory.store.address import Address
from runners.bench.places import identity_of
from runners.bench.trial import Trial

MARK_S = 3600.0
"""Age from which a mark is taken for one that nobody looks for any more: each is renewed just before it is."""


class Landmark(Protocol):
    """Travels to a worker."""

    @property
    def hint(self) -> str:
        """What a person can do about a worker that does not find it."""

    def show(self) -> None:
        """Called by the driver just before a worker looks."""

    def missing(self) -> str:
        """Called by a worker: what is wrong, as in ``does not see /shared/out``; empty when it is found."""


@dataclass(frozen=True, slots=True)
class InFolder:
    """A file beside the sessions."""

    path: Path

    @property
    def hint(self) -> str:
        return (
            "share the folder under the same path on every machine, or name one that is: --out, --sessions; or keep "
            "sessions in a database: --sessions postgresql://user@host/database"
        )

    def show(self) -> None:
        self.path.touch()

    def missing(self) -> str:
        return "" if self.path.exists() else f"does not see {self.path.parent}"


@dataclass(frozen=True, slots=True)
class InDatabase:
    """``identity``: which database it is to the driver, as the same address may lead elsewhere from another machine."""

    address: Address
    identity: str

    @property
    def hint(self) -> str:
        return "every machine has to reach it by this address, and needs psycopg: pip install 'longstride[postgres]'"

    def show(self) -> None:
        """It is there all the time."""

    def missing(self) -> str:
        try:
            found = identity_of(self.address)
        except MemoryFault as fault:
            return f"does not reach the sessions' database: {fault}"
        return "" if found == self.identity else f"reaches another database than the driver at {self.address}"


@contextmanager
def landmark(trials: Sequence[Trial]) -> Iterator[Landmark]:
    """That of the sessions of these trials. Raises StoreFault where their database cannot be reached."""
    database = trials[0].address
    if database is not None:
        address = database.of("")
        yield InDatabase(address, identity_of(address))
        return
    above = Path(os.path.commonpath([Path(trial.folder).absolute().parent for trial in trials]))
    mark = above / f".cluster-{secrets.token_hex(8)}"
    above.mkdir(parents=True, exist_ok=True)
    for left in above.glob(".cluster-*"):  # by drivers that were killed
        if time.time() - left.stat().st_mtime > MARK_S:
            left.unlink(missing_ok=True)
    try:
        yield InFolder(mark)
    finally:
        mark.unlink(missing_ok=True)
