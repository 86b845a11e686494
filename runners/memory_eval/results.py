"""Results as they come: a header, then the lines of one dialogue after another, only ever appended to.

An interrupted evaluation goes on from there, a wider one adds to it. A file of other data, another encoder, reader,
judge or seed is refused; so is a second writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from runners.bench.journal import Journal, read_journal
from runners.errors import UsageFault
from runners.memory_eval.job import Key, Line

FORM = "longstride-memory-eval-1"
_ELSEWHERE = "give --rows another file"


@dataclass(frozen=True, slots=True)
class Header:
    """What all lines of a file have in common. ``data``: SHA-256 of the data files."""

    data: str
    encoder: str
    """The encoder's settings, as JSON."""
    reader: str = ""
    judge: str = ""
    seed: int = 0
    form: str = FORM


class Results:
    """A file of results open for appending, as its only writer. ``known``: what it holds."""

    def __init__(self, path: Path, header: Header) -> None:
        """Raises UsageFault: it cannot be written, somebody else writes it, or it belongs to something else."""
        self.path = path
        try:
            self._journal = Journal(path)
        except UsageFault as fault:
            raise UsageFault(str(fault), hint=f"wait until it is free, or {_ELSEWHERE}") from fault
        try:
            self.known = self._read(header)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, lines: Sequence[Line]) -> None:
        """Append the lines of a dialogue, all or none. Raises UsageFault when the disk does not take them."""
        self._journal.append({"lines": [asdict(line) for line in lines]})

    def close(self) -> None:
        """Let others write."""
        self._journal.close()

    def _read(self, header: Header) -> dict[Key, Line]:
        known: dict[Key, Line] = {}
        rows = read_journal(self.path)
        first = next(rows, None)
        if first is None:
            self._journal.append(asdict(header))
            return known
        self._check(first[1], header)
        for number, value in rows:
            try:
                known.update((line.key, line) for line in _lines().validate_python(value.get("lines")))
            except ValidationError as fault:
                raise UsageFault(
                    f"{self.path}:{number}: not results", hint="delete this line: it is computed again"
                ) from fault
        return known

    def _check(self, found: Mapping[str, object], header: Header) -> None:
        if found.get("form") != FORM:
            raise UsageFault(f"{self.path}: no results of memory-eval", hint=_ELSEWHERE)
        other = [name for name, value in asdict(header).items() if found.get(name) != value]
        if other:
            raise UsageFault(
                f"{self.path}: its results are of another {' and another '.join(other)}",
                hint=f"{_ELSEWHERE}, or go on with what it was begun with",
            )


@cache
def _lines() -> TypeAdapter[list[Line]]:
    return TypeAdapter(list[Line])
