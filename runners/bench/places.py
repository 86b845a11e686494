"""Where the sessions of a run are: in a folder, or in a database that all its workers reach."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from memory.store.address import Address, is_address
from memory.store.postgres_database import opened
from memory.store.postgres_link import Link
from memory.store.postgres_schema import prepare
from runners.bench.rows import TrialKey
from runners.environment import Environment
from runners.errors import UsageFault
from runners.folders import SessionFolder, refuse_address
from runners.stores import database_at, in_database

Sessions: TypeAlias = Path | Address
"""What ``--sessions`` named."""
_READABLE = 30
_SAFE = "-_."
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Shelf:
    """The place of each session of one run. ``database``: where they are kept; then ``folder`` is what a machine has
    for the time that it works on them. ``run``: what tells those of this run from all others there."""

    folder: Path
    database: Address | None = None
    run: str = ""

    @classmethod
    def in_database(cls, home: Path, database: Address, run: str) -> Shelf:
        """``home``: of every machine."""
        return cls(in_database(home, database.of(run)).path.parent, database, run)

    def of(self, key: TrialKey) -> SessionFolder:
        """Where a trial's session is."""
        if self.database is None:
            return SessionFolder(self.folder / trial_path(key))
        name = session_of(self.run, key)
        return SessionFolder(self.folder / name, self.database.of(name))


def trial_path(key: TrialKey) -> Path:
    """The place of a trial below any folder of trials, told apart from all others."""
    return Path(safe(key.policy)) / f"{safe(key.task)}-r{key.rollout}"


def safe(name: str) -> str:
    """A name as part of a path; no two names share one, however long they are."""
    plain = all(char.isascii() and (char.isalnum() or char in _SAFE) for char in name)
    if name and plain and name[0] not in "._" and len(name) <= _LONGEST:
        return name
    data = name.encode()
    return "_" + data.hex() if 2 * len(data) <= _LONGEST else "__" + hashlib.sha256(data).hexdigest()


def sessions_at(environment: Environment, text: str | None) -> Sessions | None:
    """What ``--sessions`` says. Raises UsageFault."""
    if not text:
        return None
    if not is_address(text):
        refuse_address(Path(text))
        return Path(text)
    address = database_at(environment, text)
    if address is not None and address.session:
        raise UsageFault(f"--sessions {address}: name the database; every trial has a session of its own in it")
    return address


def new_run() -> str:
    """A name that no other run has."""
    return f"bench-{secrets.token_hex(5)}"


def session_of(run: str, key: TrialKey) -> str:
    """The name of a trial's session in a database: for people as far as there is room, told apart by its end."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", f"{key.policy}-{key.task}-r{key.rollout}")[:_READABLE]
    whole = "\0".join((key.policy, key.task, str(key.rollout)))
    return f"{run}.{readable}.{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def settled(address: Address) -> tuple[Address, str]:
    """The address with the password that this machine has for it, so that others need none, and which database it is.
    Its tables are made, or brought up to date. Raises StoreFault where it cannot be reached, NotStored, StoreBusy."""
    with opened(address) as link:
        prepare(link, write=True)
        password, identity = link.connection.info.password, _identity(link)
    if password and not address.passwords:
        join = "&" if "?" in address.url else "?"
        address = Address(f"{address.url}{join}password={quote(password, safe='')}", address.session)
    return address, identity


def identity_of(address: Address) -> str:
    """Which database of which server an address leads to, from this machine. Raises as `settled`."""
    with opened(address) as link:
        return _identity(link)


def _identity(link: Link) -> str:
    row = link.execute(
        "SELECT (SELECT system_identifier FROM pg_control_system()),"
        " (SELECT oid::bigint FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    return f"{row[0]}/{row[1]}"
