"""The steps of finished trials: from their sessions, or from the sealed copies that private sets leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from memory.errors import MemoryFault
from memory.records import Step
from runners.bench.cipher import SEALED
from runners.bench.rows import RunPlan, TrialKey
from runners.bench.secrecy import Sealer
from runners.errors import UsageFault
from runners.folders import STORE, TRAJECTORY
from runners.replay.readers.own import read_rows

FOLDER = "trajectories"
_SAFE = "-_."
_LONGEST = 120


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


def keep_trajectory(out: Path, key: TrialKey, session: Path, sealer: Sealer) -> None:
    """Keep the steps of a private session, sealed, before the session goes."""
    source = session / TRAJECTORY
    if not source.is_file():
        return
    target = _sealed_file(out, key)
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = source.read_text("ascii").splitlines()
    target.write_text("".join(sealer.seal(line) + "\n" for line in lines), "ascii")


def steps_of(out: Path, plan: RunPlan, key: TrialKey, sealer: Sealer, sessions: Path | None = None) -> Sequence[Step]:
    """The steps of a trial. Raises UsageFault where neither its session nor a sealed copy is there."""
    kept = _sealed_file(out, key)
    if kept.is_file():
        rows = [(at, json.loads(sealer.open(line))) for at, line in enumerate(kept.read_text("ascii").split(), 1)]
        return _steps(rows, str(kept))
    folder = (sessions or out / "sessions") / trial_path(key)
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
