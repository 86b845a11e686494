"""Files of recorded runs: which format, line by line, and what is said about what cannot be read.

A broken line names its file and line. With ``skip_broken`` it is left out and counted instead; nothing of it is used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from memory.store.address import SCHEMES
from runners.errors import UsageFault
from runners.replay.jsonlines import content, lines
from runners.replay.readers import alibaba, atif, normalised, openai, own
from runners.replay.recording import Recording

Read = Callable[[object, str], Recording]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a set of files holds. ``broken``: one line of text for each run that was left out."""

    recordings: tuple[Recording, ...]
    broken: tuple[str, ...] = ()


def read_files(paths: Sequence[Path], *, skip_broken: bool = False) -> Reading:
    """Every recording, in order. Raises UsageFault naming file and line, also when nothing is left."""
    found: list[Recording] = []
    broken: list[str] = []
    for path in paths:
        for item in _recordings(path):
            if isinstance(item, Recording):
                found.append(item)
            elif skip_broken:
                broken.append(item)
            else:
                raise UsageFault(item, hint="--skip-broken leaves such runs out and counts them")
    if not found:
        raise UsageFault("there is no recorded run in " + ", ".join(str(path) for path in paths))
    return Reading(tuple(_distinct(found)), tuple(broken))


def _distinct(recordings: Sequence[Recording]) -> Iterator[Recording]:
    """A second run of the same name in a family is numbered: units of a mean must not fall together."""
    seen: Counter[tuple[str, str]] = Counter()
    for recording in recordings:
        key = (recording.family, recording.id)
        seen[key] += 1
        yield recording if seen[key] == 1 else replace(recording, id=f"{recording.id} ~{seen[key]}")


def _recordings(path: Path) -> Iterator[Recording | str]:
    """Recordings, and problems as text."""
    if own.is_session(path):
        yield own.read_session(path)
        return
    if not path.is_file():
        mangled = path.parts and path.parts[0].removesuffix(":") in SCHEMES
        raise UsageFault(f"{path}: no such file", hint="`longstride sessions pull` copies it here" if mangled else "")
    name = path.name.removesuffix(".gz")
    family = path.resolve().parent.name if name.startswith("trajector") else name.rpartition(".")[0]
    if name.endswith(".json"):
        yield from _whole(path, family)
        return
    rows = list(lines(path))
    if rows and isinstance(rows[0][1], Mapping) and own.is_row(rows[0][1]):
        yield own.read_rows(rows, str(path))
        return
    for number, value in rows:
        where = f"{path}:{number}"
        yield value if isinstance(value, str) else _read(value, family, where)


def _whole(path: Path, family: str) -> Iterator[Recording | str]:
    try:
        value = json.loads(content(path))
    except (ValueError, RecursionError) as fault:
        yield f"{path}: not JSON: {fault}"
        return
    for number, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _read(item, family, f"{path}: run {number}")


def _read(value: object, family: str, where: str) -> Recording | str:
    try:
        return _format(value)(value, family)
    except ValidationError as fault:
        first = fault.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        more = f" (and {fault.error_count() - 1} more)" if fault.error_count() > 1 else ""
        return f"{where}: {at or 'run'}: {first['msg'][:1].lower()}{first['msg'][1:]}{more}"
    except ValueError as fault:
        return f"{where}: {fault}"


def _format(value: object) -> Read:
    if isinstance(value, Mapping):
        if "schema_version" in value and "steps" in value:
            return atif.read
        if "messages" in value:
            return alibaba.read if "question" in value else openai.read
        if "steps" in value:
            return normalised.read
    raise ValueError("no known form of a recorded run: neither steps nor messages")
