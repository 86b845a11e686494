"""Following relations from a name over the pages read, and comparing two things by what their chains end in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.backbones.extractive.names import DATE, YEAR, date_value, find_names, key
from agent.backbones.extractive.pages import Page, Passage, find_page
from agent.backbones.extractive.places import is_demonym, mentions
from agent.backbones.extractive.relations import Relation

_PARENTHESIS = re.compile(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_DASH = re.compile(r"\s*[–—]\s*|\s+-\s*|\s*-\s+")
_BORN = re.compile(r"\bborn\b", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|death|killed|murdered|assassinated|executed|passed away)\b", re.IGNORECASE)
_FOUNDED = re.compile(r"\b(?:founded|established|formed|opened|incorporated|created|started)\b", re.IGNORECASE)
_PHRASE = re.compile(r"\s*(?:a |an |the )?([\w' -]{3,60}?)(?=[,.;()]|\s(?:in|on|at|while|when|after|and|aged)\b|$)")
_REACH = 90
"""Characters after an anchor within which its value begins."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value with the sentence that states it."""

    text: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Trail:
    """How far a chain could be followed. ``missing``: the name whose page has yet to be read ("" when none).

    ``values``: one per relation done. ``done``: the whole chain was followed. ``role``: word for the search.
    """

    values: tuple[Value, ...]
    missing: str = ""
    done: bool = False
    role: str = ""
    page: Page | None = None


def follow(name: str, chain: Sequence[Relation], pages: Sequence[Page]) -> Trail:
    """Follow the relations from a name; stops where a page is missing or does not say."""
    values: list[Value] = []
    role = ""
    page: Page | None = None
    for relation in chain:
        page = find_page(name, pages)
        if page is None:
            known = _told_elsewhere(name, relation, pages) if relation.final or not values else None
            if known is None:
                return Trail(tuple(values), missing=name, role=role)
            values.append(known)
            continue
        value = find_value(relation, page)
        if value is None:
            return Trail(tuple(values), role=role, page=page)
        values.append(value)
        name, role = value.text, relation.role
    return Trail(tuple(values), done=bool(chain), role=role, page=page)


def find_value(relation: Relation, page: Page) -> Value | None:
    """What a page says of its subject under a relation, or None."""
    match relation.kind:
        case "date":
            return _date(relation, page)
        case "country":
            return country(page)
        case "place":
            return _place(relation, page)
        case _:
            return _named(relation, page)


def country(page: Page) -> Value | None:
    """Nationality or country as the lead states it: the first demonym of the first sentences, else the last country."""
    for index, sentence in enumerate(page.sentences[:4]):
        found = mentions(sentence)
        text = sentence[: len(page.title) + 2]
        found = [item for item in found if item.start >= len(text) or item.text not in page.title] or found
        adjectives = [item for item in found if item.demonym]
        if found:
            best = adjectives[0] if adjectives else found[-1]
            return Value(best.text, Passage(page, index, 1.0))
    return None


def countries(page: Page) -> set[str]:
    """Every country that the first sentence which names one names."""
    for sentence in page.sentences[:4]:
        found = {item.country for item in mentions(sentence)}
        if found:
            return found
    return set()


def year_of(page: Page) -> Value | None:
    """The year of a work or a foundation: beside a founding verb, else the first year of the page."""
    first: Value | None = None
    for index, sentence in enumerate(page.sentences[:12]):
        for match in YEAR.finditer(sentence):
            value = Value(match.group(), Passage(page, index, 1.0))
            if _FOUNDED.search(sentence[max(0, match.start() - 40) : match.start()]):
                return value
            first = first or value
    return first


def life_dates(page: Page) -> tuple[Value | None, Value | None]:
    """(birth, death) as the lead's parenthesis or its verbs state them."""
    birth = death = None
    for index, sentence in enumerate(page.sentences[:14]):
        passage = Passage(page, index, 1.0)
        if index < 2 and not (birth and death):
            for inside in _PARENTHESIS.finditer(sentence):
                left, right = _lifespan(inside[1])
                birth = birth or (Value(left, passage) if left else None)
                death = death or (Value(right, passage) if right else None)
        birth = birth or _dated(_BORN, sentence, passage)
        death = death or _dated(_DIED, sentence, passage)
    return birth, death


def _lifespan(inside: str) -> tuple[str, str]:
    halves = _DASH.split(inside, maxsplit=1)
    left, right = _first_date(halves[0]), _first_date(halves[1]) if len(halves) > 1 else ""
    if len(halves) == 1:
        dates = [match.group() for match in DATE.finditer(inside)]
        if len(dates) == 2 and not _BORN.search(inside):
            return dates[0], dates[1]
        if re.match(r"\s*(?:died|d\.|†)", inside):
            return "", left
        return (left, "") if _BORN.search(inside) or re.search(r"\bb\.", inside) or (DATE.search(inside)) else ("", "")
    return left, right


def _first_date(text: str) -> str:
    match = next((match for match in DATE.finditer(text) if re.search(r"\d{3,4}", match.group())), None)
    match = match or YEAR.search(text)
    return match.group() if match else ""


def _dated(verb: re.Pattern[str], sentence: str, passage: Passage) -> Value | None:
    match = verb.search(sentence)
    text = _first_date(sentence[match.end() : match.end() + 80]) if match else ""
    return Value(text, passage) if text else None


def _date(relation: Relation, page: Page) -> Value | None:
    birth, death = life_dates(page)
    return birth if relation.name == "birth date" else death


def _place(relation: Relation, page: Page) -> Value | None:
    if relation.name in ("birth place", "death place"):
        value = _place_in_lifespan(relation.name, page)
        if value:
            return value
    for anchor in relation.anchors:
        for index, sentence in enumerate(page.sentences[:20]):
            for match in anchor.finditer(sentence):
                value = _name_after(sentence, match.end(), page, index, place=True)
                if value:
                    return value
    return None


def _place_in_lifespan(name: str, page: Page) -> Value | None:
    """``(13 February 1890, Tacoma, Washington – 12 April 1969, San Diego, California)``."""
    for index, sentence in enumerate(page.sentences[:2]):
        for inside in _PARENTHESIS.finditer(sentence):
            halves = _DASH.split(inside[1], maxsplit=1)
            if len(halves) == 2:
                half = halves[0 if name == "birth place" else 1]
            elif _BORN.search(inside[1]) and name == "birth place":
                half = inside[1]
            else:
                continue
            date = DATE.search(half) or YEAR.search(half)
            found = find_names(half[date.end() :] if date else "")
            if found:
                return Value(found[0].text, Passage(page, index, 1.0))
    return None


def _named(relation: Relation, page: Page) -> Value | None:
    for anchor in relation.anchors:
        for index, sentence in enumerate(page.sentences[:20]):
            for match in anchor.finditer(sentence):
                if relation.kind == "text":
                    value = _phrase_after(sentence, match.end(), page, index)
                else:
                    value = _name_after(sentence, match.end(), page, index)
                if value:
                    return value
    return None


def _name_after(sentence: str, at: int, page: Page, index: int, *, place: bool = False) -> Value | None:
    """The first name that begins within reach and is neither a demonym nor the page's own subject."""
    window = sentence[at : at + _REACH + 60]
    stop = re.search(r"[;(]|\.\s", window[:_REACH])
    own = key(page.title)
    for name in find_names(window):
        if name.start > (stop.start() if stop else _REACH):
            return None
        if is_demonym(name.text) or key(name.text) == own or name.text.lower() in _TITLES:
            continue
        if not place and _describes(window, name.end):
            continue
        if place and (DATE.fullmatch(name.text) or name.text.split()[0] in _MONTHS):
            continue
        return Value(name.text, Passage(page, index, 1.0))
    return None


def _describes(window: str, end: int) -> bool:
    """Whether a name stands before a noun it belongs to (``former Lillestrøm player Kjetil Osvold``)."""
    after = re.match(r"\s+([a-z][\w-]+)", window[end:])
    if after is None or after[1] in _FUNCTION_WORDS:
        return False
    return any(name.start > end for name in find_names(window[:_REACH])) and not after[1].endswith("ed")


_FUNCTION = (
    "and or in with for as at on from to by of who which that is was are were starring based about after before until "
    "when while where but under via also had has have"
)
_FUNCTION_WORDS = frozenset(_FUNCTION.split())
_NO_NAME = "jr sr mr mrs dr sir king queen prince princess emperor president hollywood"
_TITLES = frozenset(_NO_NAME.split())
_MONTH_NAMES = "January February March April May June July August September October November December"
_MONTHS = frozenset(_MONTH_NAMES.split())


def _phrase_after(sentence: str, at: int, page: Page, index: int) -> Value | None:
    match = re.match(
        r"\s*(?:a |an |the )?([\w' -]{3,60}?)(?=[,.;()]|\s(?:in|on|at|while|when|after|and|aged)\b|$)", sentence[at:]
    )
    return Value(match[1].strip(), Passage(page, index, 1.0)) if match else None


def _told_elsewhere(name: str, relation: Relation, pages: Sequence[Page]) -> Value | None:
    """A relation of a name stated on another page, close behind the name."""
    wanted = key(name)
    if relation.kind not in ("place", "date") or " " not in wanted:
        return None
    for page in pages:
        for index, sentence in enumerate(page.sentences):
            at = sentence.find(name)
            if at < 0:
                continue
            near = sentence[at + len(name) : at + len(name) + 60]
            verb = _BORN if relation.name.startswith("birth") else _DIED
            if verb.match(near.lstrip(" (,")) and relation.kind == "date":
                return _dated(verb, near + sentence[at + len(name) + 60 :][:40], Passage(page, index, 0.9))
    return None


def later(a: str, b: str) -> int:
    """-1, 0 or 1 as date a is before, like or after b; 0 when either has no year."""
    left, right = date_value(a), date_value(b)
    if left is None or right is None:
        return 0
    for x, y in zip(left, right, strict=True):
        if x and y and x != y:
            return -1 if x < y else 1
        if not x or not y:
            return 0
    return 0
