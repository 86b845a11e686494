"""Strings that can be recalled to the letter: whole tokens, and which of them count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.records import JsonValue
from memory.text.words import UNSPACED

MIN_CHARS = 3
"""Shorter strings (a count, a rank) stand everywhere and prove nothing."""
_URL = r"https?://[^\s<>\"'|（）()\[\]{}，。、；\\]*[^\s<>\"'|（）()\[\]{}，。、；\\.,;:!?*`]"
_LETTER = f"(?:(?![{UNSPACED}])\\w)"
_WORD = rf"{_LETTER}+(?:(?:[-.'’@&+]|(?<=\d)[:/,](?=\d)){_LETTER}+)*"
_TOKEN = re.compile(f"{_URL}|{_WORD}")


def tokens(text: str) -> frozenset[str]:
    """The distinct tokens of a text, as written: addresses whole, else words with what joins them (``2024-05-15``,
    ``o'brien``, ``HAT-078``, ``1,200``). Scripts without spaces give only the Latin words and numbers in them."""
    return frozenset(_TOKEN.findall(text))


def is_marked(token: str, seen: frozenset[str] | set[str]) -> bool:
    """Whether a token is to be kept to the letter: it holds a digit, is an address, or is never written in lower case
    in ``seen`` (the tokens of the whole run)."""
    if len(token) < MIN_CHARS:
        return False
    if any(char.isdigit() for char in token) or "://" in token:
        return True
    lower = token.lower()
    return lower != token and lower not in seen


def values(value: JsonValue) -> Iterator[str]:
    """The scalars in an argument, keys left out."""
    if isinstance(value, dict):
        for item in value.values():
            yield from values(item)
    elif isinstance(value, list):
        for item in value:
            yield from values(item)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield str(value)
