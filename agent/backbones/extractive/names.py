"""Names, dates and numbers in English text, by their form."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_CAP = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪĮİĶŁĻŃŅŇŌŐŒŘŚŞŠŢŤŪŮŰŲŸŹŻŽ"
_WORD = rf"(?:[{_CAP}][\w'’.&-]*|[{_CAP}]\.)"
_LINK = r"(?:of|the|de|da|di|du|la|le|van|von|der|den|del|della|al|el|bin|ibn|y|&)"
NAME = re.compile(rf"{_WORD}(?:(?:\s+{_LINK}){{0,3}}\s+(?:{_WORD}|\d{{1,4}}\b))*")
QUOTED = re.compile(r"[\"“«]\s*([^\"”»\n]{2,90}?)\s*[,.]?[\"”»]")
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    r"Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
)
DATE = re.compile(
    rf"\b(?:{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{3,4}})?|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{3,4}})?"
    rf"|{_MONTH}\s+\d{{4}})\b"
)
YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b(?!s\b|[.,]\d)")
_NUMBER_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|"
    "nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
)
NUMBER = re.compile(
    rf"(?:[$€£]\s?)?\b\d[\d,]*(?:\.\d+)?(?:\s?%|\s(?:million|billion|percent)\b)?|\b(?:{_NUMBER_WORDS})\b",
    re.IGNORECASE,
)
_MONTH_KEYS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: i for i, name in enumerate(_MONTH_KEYS.split(), 1)}
_PARENTHESIS = re.compile(r"\s*\([^()]*\)")
_NOT_WORD = re.compile(r"[^\w]+")
_COMMON_WORDS = (
    "the a an it its he she they his her their in on at of for from to by with as and or but if when while where who "
    "what which why how after before during since until also however there this that these those is was are were has "
    "have had be been did does do can will would may all some many most both each other another such than then so i we "
    "you my our your not no yes one two three first second later although despite because born died known film album "
    "between among along besides under over into out up what's"
)
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written, with its character range."""

    text: str
    start: int
    end: int


def key(text: str) -> str:
    """A name for comparison: no case, accents, punctuation, parentheses or leading article."""
    return _key(_PARENTHESIS.sub("", text) or text)


def full_key(text: str) -> str:
    """As `key`, with what stands in parentheses kept."""
    return _key(text)


@lru_cache(maxsize=16384)
def _key(text: str) -> str:
    if not text.isascii():
        text = "".join(ch for ch in unicodedata.normalize("NFKD", text) if not unicodedata.combining(ch))
    return _NOT_WORD.sub(" ", text.replace("'", "").replace("’", "").casefold()).strip().removeprefix("the ")


def find_names(text: str) -> list[Name]:
    """Runs of capitalised words, common words trimmed at the left, possessives and full stops at the right."""
    found: list[Name] = []
    for match in NAME.finditer(text):
        start, end = match.span()
        words = text[start:end].split()
        while words and words[0].lower().rstrip(".,") in _COMMON and _starts(text, start):
            first = words.pop(0)
            start = text.find(words[0], start + len(first), end) if words else end
        while start < end and (text[end - 1] in ".&-'’ " and not _initial(text, end)):
            end -= 1
        for tail in ("'s", "’s"):
            if text[start:end].endswith(tail):
                end -= 2
        if end - start > 1 and text[start:end].lower() not in _COMMON:
            found.append(Name(text[start:end], start, end))
    return found


def quotations(text: str) -> list[Name]:
    """What stands in double quotation marks."""
    return [Name(match[1], match.start(1), match.end(1)) for match in QUOTED.finditer(text)]


def date_value(text: str) -> tuple[int, int, int] | None:
    """(year, month, day) of the first date or year in a text; 0 for what is not said. None without a year."""
    year = YEAR.search(text) or re.search(r"\b\d{3,4}\b", text)
    if year is None:
        return None
    month = next(
        (_MONTHS[word[:3].lower()] for word in re.findall(r"[A-Za-z]{3,}", text) if word[:3].lower() in _MONTHS), 0
    )
    day = next((int(value) for value in re.findall(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", text)), 0)
    return int(year.group()), month, day


def _starts(text: str, start: int) -> bool:
    """Whether a sentence starts here, so that the capital says nothing."""
    before = text[:start].rstrip()
    return not before or before[-1] in '.!?:;"”('


def _initial(text: str, end: int) -> bool:
    """Whether the full stop before ``end`` belongs to an initial or a suffix (``J.``, ``Jr.``)."""
    return bool(re.search(r"(?:\b[A-Z]|\bJr|\bSr)\.$", text[max(0, end - 4) : end]))
