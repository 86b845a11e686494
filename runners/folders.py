"""Where runs live: one folder a session, named by time and chance, found again by name or path."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from memory.errors import NotStored
from memory.records import JsonValue
from memory.store.address import Address, is_address
from runners.errors import UsageFault

STORE, CONFIG, TRAJECTORY = "session.sqlite", "config.yaml", "trajectory.jsonl"


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """The files of one session."""

    path: Path
    address: Address | None = None
    """Where its store is, when that is no file; then the folder holds only what is made from it."""

    @property
    def name(self) -> str:
        return self.path.name

    def __str__(self) -> str:
        """For people."""
        return str(self.address or self.path)

    @property
    def store(self) -> Path:
        return self.path / STORE

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def trajectory(self) -> Path:
        return self.path / TRAJECTORY

    @property
    def workspace(self) -> Path:
        return self.path / "files"

    def write_config(self, tree: Mapping[str, JsonValue]) -> None:
        """The settings for people to read; the store holds those in force."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.config.write_text(yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True), encoding="utf-8")

    def discard(self) -> None:
        """Remove what opening a session wrote, and the folder when nothing else is in it."""
        for name in (STORE, CONFIG, TRAJECTORY):
            (self.path / name).unlink(missing_ok=True)
        for pattern in (f"{STORE}-*", f"{STORE}.*.new"):  # what stands beside the store, or was cut off in the making
            for derived in self.path.glob(pattern):
                derived.unlink(missing_ok=True)
        self.leave_empty()

    def leave_empty(self) -> None:
        """Remove the folder when nothing is in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def new_folder(home: Path, out: Path | None = None) -> SessionFolder:
    """A new session folder: ``out`` itself, or one below ``home``. Raises UsageFault where no folder can be.

    Whether a session is there already is asked by whoever opens it, as its owner."""
    path = out if out is not None else home / "runs" / session_name()
    refuse_address(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageFault(f"cannot make {path}: {fault.strerror or fault}") from fault
    return SessionFolder(path)


def refuse_address(path: Path) -> None:
    """Raises UsageFault for ``scheme://…``, which is no folder; not shown, as it may hold a password."""
    first = path.parts[0] if path.parts else ""
    if len(first) > 2 and first.endswith(":"):
        raise UsageFault(
            "an address cannot be used as a folder", hint="sessions in a database: postgresql://user@host/database"
        )


def already_there(where: object) -> UsageFault:
    """What is said where a new session would go on top of another."""
    return UsageFault(f"{where} already holds a session", hint=f"continue it with `longstride resume {where}`")


def find_folder(home: Path, session: str) -> SessionFolder:
    """An existing session by its name, a unique beginning of it, or its folder. Raises NotStored, UsageFault."""
    if is_address(session):  # not shown: it may hold a password
        raise UsageFault("a session in a database cannot be used here", hint="`longstride sessions pull` copies it")
    for path in (Path(session), home / "runs" / session):
        if (path / STORE).is_file():
            return SessionFolder(path)
    runs = home / "runs"
    names = sorted(p.name for p in runs.iterdir() if (p / STORE).is_file()) if runs.is_dir() else []
    matches = [name for name in names if session and name.startswith(session)]
    if len(matches) == 1:
        return SessionFolder(runs / matches[0])
    if matches:
        raise NotStored(f"{session!r} fits {len(matches)} sessions: {', '.join(matches[:5])}")
    latest = f"the latest is {names[-1]}" if names else f"there is none below {runs}"
    raise NotStored(f"no session {session!r}: {latest}")


def session_name() -> str:
    """``20260131-154502-3fa9``: sorts by time, unique enough for one home."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
