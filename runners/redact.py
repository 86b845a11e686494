"""Secrets out of texts that leave the process: those that are known, and whatever looks like a provider's key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from memory.records import JsonValue
from runners.environment import Secret

SHORTEST = 6
"""A shorter value would cut holes into ordinary text."""
MASK = "***"
_KEYS = re.compile(
    # a word begins there, or behind an escape of a JSON text
    r"(?:\b|(?<=\\[nrtbf]))"
    r"(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,}|tvly-[A-Za-z0-9-]{20,}|jina_[A-Za-z0-9]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|xox[abprs]-[A-Za-z0-9-]{20,}|AKIA[A-Z0-9]{16})\b"
)


class Redactor:
    """Replaces secrets by ``***``. ``shapes``: also what has the form of a key of a known service."""

    def __init__(self, secrets: Iterable[Secret], *, shapes: bool = False) -> None:
        known = {value for secret in secrets if len(value := secret.reveal()) >= SHORTEST}
        # also as it stands inside a JSON text
        self.values = sorted(known | {json.dumps(value)[1:-1] for value in known}, key=len, reverse=True)
        self._shapes = shapes

    def __call__(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, MASK)
        return _KEYS.sub(MASK, text) if self._shapes else text

    def json(self, value: JsonValue) -> JsonValue:
        """A JSON value with every text in it, keys included, redacted."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, Mapping):
            return {self(key): self.json(item) for key, item in value.items()}
        return value

    def data(self, data: bytes) -> bytes:
        """The bytes of a file: as text where it is UTF-8, else the known secrets only."""
        try:
            return self(data.decode()).encode()
        except UnicodeDecodeError:
            for value in self.values:
                data = data.replace(value.encode(), MASK.encode())
            return data
