"""System prompts, one file each, read when they are first needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text of ``agent/prompts/{name}.md``, without its trailing newline."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
