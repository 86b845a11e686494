"""What a command line asks of the configuration; light, so that ``--help`` need not load what it configures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """Names of packaged files, the user's own file, and ``key.path=value`` options. None leaves it to the files."""

    profile: str | None = None
    policy: str | None = None
    backbone: str | None = None
    file: Path | None = None
    options: Sequence[str] = ()
