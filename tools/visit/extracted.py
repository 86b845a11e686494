"""What extraction gives, and how it fails; shared by parent and child."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document as text. ``notes``: what a reader should know (cut, pages without text, crude fallback)."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


class Unreadable(Exception):
    """The document gives no text; the message says why."""
