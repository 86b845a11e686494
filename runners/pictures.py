"""Pictures among the attached files: sent along with the question where the backbone takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memory.records import Image
from runners.errors import UsageFault

PICTURE_TOKENS = 1_600
"""What one picture may cost: the providers scale larger ones down to about that. The window leaves room for it."""
MAX_BYTES = 5_000_000
"""Largest picture that every provider takes."""
_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def picture_type(head: bytes) -> str | None:
    """Media type by the first 12 bytes; None for what is no picture that models take."""
    found = next((kind for magic, kind in _KINDS if head.startswith(magic)), None)
    return None if found == "image/webp" and head[8:12] != b"WEBP" else found


def read_pictures(files: Sequence[str]) -> tuple[Image, ...]:
    """The pictures among these files, in order. Raises UsageFault for one that is too large or cannot be read."""
    found = []
    for name in files:
        path = Path(name)
        try:
            with path.open("rb") as file:
                kind = picture_type(file.read(12))
            if kind is None:
                continue
            if path.stat().st_size > MAX_BYTES:
                raise UsageFault(f"{name} is larger than {MAX_BYTES // 1_000_000} MB", hint="scale the picture down")
            found.append(Image(kind, path.read_bytes(), path.name))
        except OSError as fault:
            raise UsageFault(f"{name} cannot be read: {fault.strerror}") from fault
    return tuple(found)
