"""Strings that a later step may need to the letter: URLs, dates, numbers, identifiers, quotations, names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["url", "date", "identifier", "number", "quote", "name", "code"]

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_CAPITAL = "A-ZÀ-ÖØ-Þ"
_TYPES = "py|js|tsx?|c|h|cc|cpp|rs|go|java|rb|sh|sql|ya?ml|toml|json|[ct]sv|md|txt|cfg|ini|html?|pdf|xlsx?|docx?|ipynb"
_PATTERNS: dict[Kind, tuple[str, ...]] = {
    "url": (
        r"(?:https?://|www\.)[^\s<>\"'|（）()\[\]{}，。、；]*[^\s<>\"'|（）()\[\]{}，。、；.,;:!?]",
        r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
    ),
    "date": (
        r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?",
        r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}",
        rf"\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b",
        rf"\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}})?\b",
        rf"\b{_MONTH} \d{{4}}\b",
        r"\d{2,4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|\d{1,2}月\d{1,2}日",
        r"\b(?:1[0-9]|20)\d{2}s?\b(?![.,]\d)",
    ),
    "code": (
        r"\b[A-Z][A-Za-z]*(?:Error|Exception|Warning|Fault)\b",
        r"\b[A-Z]{1,4}\d{3,5}\b|\bE[A-Z]{4,}\b|\bHTTP[ /]?\d{3}\b|\bline \d+",
        rf"(?:[\w.-]{{1,64}}/){{0,16}}[\w-]{{1,64}}\.(?:{_TYPES})\b",
        r"\b[A-Za-z_][\w.]{0,80}\(\)|\b[a-z]+(?:_[a-z0-9]+)+\b",
    ),
    "identifier": (r"[#@]\w+", r"\b(?=[A-Za-z_]*\d)\w*[A-Za-z_]\w*(?:-\w+)*\b"),
    "number": (
        r"[$€£¥₹]\s?\d[\d,]*(?:\.\d+)?(?:\s?(?:million|billion|trillion|bn|m|k)\b)?",
        r"[-+]?\d[\d,]*(?:\.\d+)?\s?[%‰°]?",
    ),
    "quote": (
        r"\"[^\"\n]{2,80}\"|“[^”\n]{2,80}”|«[^»\n]{2,80}»|「[^」\n]{1,60}」|『[^』\n]{1,60}』|《[^》\n]{1,60}》",
    ),
    "name": (
        rf"\b[{_CAPITAL}][\w'’.-]*\w(?:\s(?:(?:of|the|de|la|van|von|der|and|&|du|di|del|al)\s){{0,2}}[{_CAPITAL}][\w'’-]*\w)+",
        rf"\b[A-Z]{{2,}}\b|\b[{_CAPITAL}][a-zà-öø-ÿ]+\b",
    ),
}
_ALL = re.compile("|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in _PATTERNS.items()))
_COMMON_WORDS = (
    "a an the this that these those it its he she they we you i his her their our my your in on at of for from to by "
    "with as and or but if when while where who what which why how after before during since until also however there "
    "here not no yes is are was were be been has have had do does did can could will would may might should one two "
    "first both each some many most more other such than then thus so all any new"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Salient:
    """A string worth keeping to the letter, with its character range in the text."""

    kind: Kind
    text: str
    start: int
    end: int


def salient(text: str) -> Iterator[Salient]:
    """Salient strings in order, not overlapping.

    A single capitalised word is a name unless it is a common word. CJK names have no mark of their own and are found
    only inside quotation marks.
    """
    for match in _ALL.finditer(text):
        kind = match.lastgroup
        found = match.group()
        if kind == "name" and " " not in found and found.lower() in _COMMON:
            continue
        yield Salient(kind, found, match.start(), match.end())  # type: ignore[arg-type]


def strings(text: str) -> list[str]:
    """The distinct salient strings of a text, in order of first appearance."""
    return list(dict.fromkeys(item.text.strip() for item in salient(text)))
