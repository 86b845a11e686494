"""Private sets: where their sessions live, how what is written of them is sealed, and the scan that nothing got out.

Encrypted and gated sets may not be spread. A running session has to hold its question, so it lives in memory: in a
folder on tmpfs that only its owner can read and that goes when its result is written. Everything else is sealed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, quote_plus

import numpy as np

from runners.bench.cipher import seal, unseal
from runners.bench.rows import GradeRow, TrialRow
from runners.bench.tasks import Dataset, Task
from runners.environment import Environment
from runners.errors import UsageFault

TMPFS = Path("/dev/shm")
_FORMS: Sequence[tuple[int, Callable[[str], bytes]]] = (
    (32, str.encode),
    (60, lambda text: json.dumps(text)[1:-1].encode()),
    (64, lambda text: text.encode("utf-16-le")),
    (72, lambda text: quote(text, safe="").encode()),
    (72, lambda text: quote_plus(text).encode()),
)
"""How a text may stand in a file, by how many bytes give it away: about 10 Chinese letters, 32 to 72 Latin ones."""
_PREFIX = 3
"""Bytes by which places are looked for where a piece may begin."""
_BLOCK = 1 << 22
_SHARED = ("models", "prices.yaml")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and opens the texts of one task's trials. ``password`` empty: an open set, where texts stay as they are."""

    password: str = ""

    @classmethod
    def of(cls, task: Task, dataset: Dataset, *, private: bool) -> Sealer:
        """With the row's canary; a gated set has none, and takes the hash of its data: who has the data can open it."""
        return cls((task.password or dataset.hash) if private else "")

    def seal(self, text: str) -> str:
        return seal(text, self.password) if self.password else text

    def open(self, text: str) -> str:
        """Raises ValueError for what was sealed with other data."""
        return unseal(text, self.password) if self.password else text

    def sealed(self, row: TrialRow) -> TrialRow:
        """The row as it may be written."""
        if not self.password:
            return row
        return replace(row, answer=self.seal(row.answer), message=self.seal(row.message), visited=())

    def sealed_grade(self, row: GradeRow) -> GradeRow:
        """The grade as it may be written."""
        return replace(row, extracted=self.seal(row.extracted), reason=self.seal(row.reason))


def private_folder(out: Path, shard: tuple[int, int] = (1, 1)) -> Path:
    """Where the sessions of a private run live, the same for the same ``out`` and shard; made when it is not there.

    Raises UsageFault when it is somebody else's.
    """
    name = hashlib.sha256(f"{out.resolve()} {shard}".encode()).hexdigest()[:16]
    root = TMPFS
    if not (TMPFS.is_dir() and os.access(TMPFS, os.W_OK)):
        _log.warning("there is no memory file system here: sessions of this run are on the disk while they last")
        root = Path(tempfile.gettempdir())
    folder = root / f"longstride-{os.getuid()}" / name
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise UsageFault(f"{path} belongs to somebody else", hint="name a folder: --sessions DIR")
    folder.chmod(0o700)
    return folder


def private_environment(environment: Environment, folder: Path) -> Environment:
    """The environment with a home of its own in ``folder``: caches hold queries, and a query may be the question."""
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    for name in _SHARED:
        source, link = environment.home / name, home / name
        if source.exists() and not link.is_symlink():
            link.symlink_to(source)
    return replace(environment, home=home)


def discard(folder: Path) -> None:
    """Remove the session of a finished private trial, or the whole private folder at the end."""
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Leak:
    """A file that holds text of a private task."""

    path: Path
    task: str
    what: str


def scan(paths: Iterable[Path], tasks: Sequence[Task]) -> list[Leak]:
    """Every file below ``paths`` that holds a piece of a question or of a longer answer of these tasks in plaintext, be
    it in UTF-8, in UTF-16, escaped as in JSON or as in an address."""
    needles = _Needles(tasks, golds=True)
    return [Leak(path, *hit) for path in _files(paths) for hit in needles.hits(path.read_bytes())]


def gives_away(text: str, tasks: Sequence[Task]) -> bool:
    """Whether a text repeats a piece of these tasks' questions."""
    return bool(_Needles(tasks, golds=False).hits(text.encode()))


def expect_no_leak(paths: Iterable[Path], tasks: Sequence[Task]) -> None:
    """Raises UsageFault, naming the files, when a private text was written in plaintext."""
    leaks = scan(paths, tasks)
    if leaks:
        named = ", ".join(sorted({str(leak.path) for leak in leaks})[:5])
        raise UsageFault(f"plaintext of a private benchmark in {named}", hint="delete these files; do not share them")


class _Needles:
    """Pieces of private texts, to be looked for in files."""

    def __init__(self, tasks: Sequence[Task], *, golds: bool) -> None:
        self._pieces: dict[int, dict[bytes, tuple[str, str]]] = {width: {} for width, _ in _FORMS}
        for task in tasks:
            texts = [("question", task.question), *(("answer", gold) for gold in task.golds if golds)]
            for what, text in texts:
                for width, form in _FORMS:
                    self._pieces[width].update(dict.fromkeys(_windows(form(text), width), (task.id, what)))
        self._begins = np.zeros(1 << 8 * _PREFIX, dtype=np.bool_)
        begins = {int.from_bytes(piece[:_PREFIX], "little") for pieces in self._pieces.values() for piece in pieces}
        self._begins[list(begins)] = True

    def hits(self, data: bytes) -> list[tuple[str, str]]:
        """(task, what) of every text of which a piece stands in it."""
        hits: dict[tuple[str, str], None] = {}
        for at in self._places(data):
            for width, pieces in self._pieces.items():
                hit = pieces.get(data[at : at + width])
                if hit is not None:
                    hits[hit] = None
        return list(hits)

    def _places(self, data: bytes) -> Iterator[int]:
        """Where the first bytes are those of some piece."""
        for start in range(0, len(data) - _PREFIX + 1, _BLOCK):
            block = np.frombuffer(data, np.uint8, min(_BLOCK + _PREFIX - 1, len(data) - start), start).astype(np.uint32)
            codes = block[:-2] | block[1:-1] << 8 | block[2:] << 16
            yield from (np.flatnonzero(self._begins[codes]) + start).tolist()


def _windows(form: bytes, width: int) -> Iterator[bytes]:
    """Pieces that overlap by half: any run of one and a half their length in a file holds a whole one."""
    return (form[at : at + width] for at in range(0, len(form) - width + 1, width // 2))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(item for item in path.rglob("*") if item.is_file() and not item.is_symlink())
        elif path.is_file():
            yield path
