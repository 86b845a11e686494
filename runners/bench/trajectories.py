"""The steps of finished trials: from their sessions, or from the sealed copies that private sets leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import MemoryFault, NotStored
from memory.ingest import clean_step
from memory.records import Step
from memory.store.address import Address
from memory.store.postgres import PostgresStore
from runners.bench.cipher import SEALED
from runners.bench.places import Sessions, session_of, trial_path
from runners.bench.rows import Kept, TrialKey, TrialRow
from runners.bench.secrecy import Sealer
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import STORE, TRAJECTORY
from runners.replay.readers.own import read_rows
from runners.stores import database_at

FOLDER = "trajectories"


def keep_trajectory(out: Path, key: TrialKey, session: Path, sealer: Sealer) -> None:
    """Keep the steps of a private session, sealed, before the session goes."""
    source = session / TRAJECTORY
    if not source.is_file():
        return
    target = _sealed_file(out, key)
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = source.read_text("ascii").splitlines()
    target.write_text("".join(sealer.seal(line) + "\n" for line in lines), "ascii")


@dataclass(frozen=True, slots=True)
class Trails:
    """Where the steps of the trials of a run in ``out`` are. ``sessions``: as ``--sessions`` says it; ``kept``: as it
    is on record, for what is in a database."""

    out: Path
    environment: Environment
    sessions: Sessions | None = None
    kept: tuple[Kept, ...] = ()

    def steps(self, row: TrialRow, sealer: Sealer) -> Sequence[Step]:
        """The steps of a trial. Raises UsageFault where neither its session nor a sealed copy is there, StoreFault for
        a database that cannot be reached."""
        sealed = _sealed_file(self.out, row.key)
        if sealed.is_file():
            rows = [(at, json.loads(sealer.open(line))) for at, line in enumerate(sealed.read_text("ascii").split(), 1)]
            return _steps(rows, str(sealed))
        kept = next((kept for kept in reversed(self.kept) if row.session == session_of(kept.run, row.key)), None)
        if kept is not None:
            named = self.sessions
            there = named if isinstance(named, Address) else database_at(self.environment, kept.database)
            assert there is not None
            return asyncio.run(_in_database(there.of(row.session), row.key))
        if isinstance(self.sessions, Address):
            raise UsageFault(f"{row.key}: its session is in no database", hint="name its folder: --sessions DIR")
        return _in_folder((self.sessions or self.out / "sessions") / trial_path(row.key), row.key)


async def _in_database(address: Address, key: TrialKey) -> Sequence[Step]:
    try:
        async with await PostgresStore.open(address, create=False, read_only=True) as store:
            chunks = await store.chunks(range(1, await store.last_step() + 1))
    except NotStored as fault:
        raise UsageFault(f"{key}: its steps are gone: {fault}", hint="name the database: --sessions ADDRESS") from fault
    return [clean_step(chunk.step) for chunk in chunks]


def _in_folder(folder: Path, key: TrialKey) -> Sequence[Step]:
    if not (folder / STORE).is_file():
        raise UsageFault(f"{key}: its steps are gone: no session in {folder}", hint="name the folder: --sessions DIR")
    try:
        lines = (folder / TRAJECTORY).read_text("ascii").splitlines()
    except (OSError, MemoryFault) as fault:
        raise UsageFault(f"{folder}: its trajectory cannot be read") from fault
    return _steps([(at, json.loads(line)) for at, line in enumerate(lines, 1)], str(folder / TRAJECTORY))


def _steps(rows: Sequence[tuple[int, object]], where: str) -> Sequence[Step]:
    found = read_rows(rows, where)
    if isinstance(found, str):
        raise UsageFault(found)
    return found.steps


def _sealed_file(out: Path, key: TrialKey) -> Path:
    path = out / FOLDER / trial_path(key)
    return path.with_name(path.name + f".{SEALED.rstrip(':')}")
