"""Cells of a table and how two of them are compared: preprocessing and metrics of WideSearch (Wong et al., 2025).

Where upstream is wrong, the function says so, and takes ``upstream=True`` to repeat it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Kind: TypeAlias = Literal["int", "float", "text"]
MISSING = "nan"
"""What an empty cell is compared as."""
DAYS = 31
_BASE = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""What is not said of a date is that of this one."""
_DIGITS = 300
"""Longer ones are no numbers to anybody."""
_MISSING = frozenset({"", "#n/a", "n/a", "na", "nan", "null", "none", "<na>", "-nan"})
_NUMBER = re.compile(r"[-+]?\d*\.\d+%?|[-+]?\d+\.?\d*%?")
_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_URL = re.compile(r"https?://[^\s\])>\"'|]+")


def column_name(name: str) -> str:
    """How columns are compared: lower case, no spaces."""
    return re.sub(r"\s", "", name).lower()


def typed(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two columns as text. Empty cells become `MISSING`; where both hold numbers and one of them fractions, whole
    numbers are written as such (``5`` as ``5.0``), and a column of whole numbers loses leading zeros: so that it is
    compared by value."""
    kinds = {_kind(ours), _kind(theirs)}
    decimal = kinds == {"int", "float"}
    return [_cell(value, decimal, _kind(ours)) for value in ours], [
        _cell(value, decimal, _kind(theirs)) for value in theirs
    ]


def _kind(cells: Sequence[str]) -> Kind:
    there = [cell for cell in cells if cell.strip().lower() not in _MISSING]
    if not there or not all(_FLOAT.fullmatch(cell.strip()) for cell in there):
        return "text"
    whole = len(there) == len(cells) and all(_INTEGER.fullmatch(cell.strip()) for cell in there)
    return "int" if whole else "float"


def _cell(cell: str, decimal: bool, kind: Kind) -> str:
    text = cell.strip()
    if text.lower() in _MISSING:
        return MISSING
    if kind == "float" or (decimal and kind == "int"):
        return str(float(text))
    return str(int(text)) if kind == "int" and len(text) < _DIGITS else text


def extract_number(text: str) -> str:
    """The first number, thousands separators dropped; ``NULL`` without one."""
    found = _NUMBER.search(text.replace(",", ""))
    return found[0] if found else "NULL"


def norm_str(text: str) -> str:
    """Lower case, no spaces, no asterisks."""
    return text.lower().strip().replace(" ", "").replace("*", "")


def norm_date(text: str) -> str:
    """ISO date; what is none stays as it is."""
    found = date_of(text)
    return text if found is None else found.strftime("%Y-%m-%d")


def date_of(text: str) -> datetime | None:
    """A date in any of many languages; the first of the month where no day is given, January where no month is.

    Upstream fills in from the day on which it is run, takes ``1990s`` for seconds ago, an empty cell for August.
    """
    import warnings

    import dateparser

    if text.strip().lower() in _MISSING:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: datetime | None = dateparser.parse(
            text,
            settings={
                "PREFER_DAY_OF_MONTH": "first",
                "RETURN_AS_TIMEZONE_AWARE": False,
                "RELATIVE_BASE": _BASE,
                "PARSERS": ["timestamp", "custom-formats", "absolute-time"],
            },
        )
    return found


def exact_match(answer: str, gold: str) -> bool:
    """Equal in lower case."""
    return answer.lower() == gold.lower()


def in_match(answer: str, gold: str) -> bool:
    """The answer stands in the gold. Upstream lets an empty answer stand everywhere: here it matches only nothing."""
    return (answer not in ("", MISSING) and answer in gold) or answer == gold


def url_match(answer: str, gold: str) -> bool:
    """The same hosts on both sides; no URL at all on both sides is a match only of equal texts."""
    ours, theirs = _hosts(answer), _hosts(gold)
    return ours == theirs if ours or theirs else answer == gold


def number_near(answer: str, gold: str, within: float) -> bool:
    """Within ``within`` (a share) of the gold; percentages as shares; two texts that are no numbers, if equal."""
    ours, theirs = _number(answer), _number(gold)
    if ours is None or theirs is None:
        return ours is None and theirs is None and answer == gold
    return abs(ours - theirs) <= abs(theirs) * within


def date_near(answer: str, gold: str, *, upstream: bool = False) -> bool:
    """At most 31 days apart. Two texts that are no dates match upstream, whatever they say; here if equal."""
    ours, theirs = date_of(answer), date_of(gold)
    if ours is None or theirs is None:
        return ours is None and theirs is None and (upstream or norm_str(answer) == norm_str(gold))
    return abs((ours - theirs).days) <= DAYS


PREPROCESS: Mapping[str, Callable[[str], str]] = {
    "extract_number": extract_number,
    "norm_str": norm_str,
    "norm_date": norm_date,
}
METRICS = frozenset({"exact_match", "url_match", "in_match", "number_near", "date_near", "llm_judge"})


def matches(metric: str, answer: str, gold: str, criterion: object, *, upstream: bool = False) -> bool:
    """One rule on one cell. ``llm_judge`` is decided by equality after `norm_str`: no more than a floor."""
    if metric == "number_near":
        return number_near(answer, gold, float(str(criterion)) if criterion not in (None, "") else 0.0)
    if metric == "date_near":
        return date_near(answer, gold, upstream=upstream)
    if metric == "url_match":
        return url_match(answer, gold)
    if metric == "in_match":
        return in_match(answer, gold)
    if metric == "llm_judge":
        return norm_str(answer) == norm_str(gold)
    return exact_match(answer, gold)


def _hosts(text: str) -> frozenset[str]:
    hosts = set()
    for url in _URL.findall(text):
        try:
            hosts.add(urlsplit(url).netloc.lower())
        except ValueError:
            hosts.add(url)
    return frozenset(hosts)


def _number(text: str) -> float | None:
    try:
        value = float(text.replace("%", "")) / (100 if "%" in text else 1)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
