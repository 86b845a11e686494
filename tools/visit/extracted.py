"""What extraction gives, and how it fails; shared by parent and child."""

from __future__ import annotations

from dataclasses import dataclass

from memory.records import ErrorKind


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document as text. ``notes``: what a reader should know (cut, pages without text, crude fallback).

    ``whole``: a web page with everything that its main text leaves out (tables, boxes, navigation); empty when there
    is no more than ``text``.
    """

    title: str
    text: str
    notes: tuple[str, ...] = ()
    whole: str = ""


class Unreadable(Exception):
    """The document gives no text; the message says why. ``kind``: as a tool would report it."""

    def __init__(self, message: str, kind: ErrorKind = "parse") -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
