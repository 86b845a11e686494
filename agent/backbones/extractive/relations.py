"""Relations that questions ask for and leads of pages state: how a question names one, where a page holds its value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["name", "place", "date", "country", "text"]


@dataclass(frozen=True, slots=True)
class Relation:
    """``asks``: pattern in a question. ``anchors``: patterns in a page after which the value stands, best first.

    ``role``: a word for the search that looks for the value's own page. ``final``: its value is an answer, not a page.
    """

    name: str
    kind: Kind
    asks: re.Pattern[str]
    anchors: tuple[re.Pattern[str], ...] = ()
    role: str = ""
    final: bool = False


def _made(name: str, kind: Kind, asks: str, *anchors: str, role: str = "", final: bool = False) -> Relation:
    return Relation(
        name,
        kind,
        re.compile(rf"\b(?:{asks})\b", re.IGNORECASE),
        tuple(re.compile(anchor, re.IGNORECASE) for anchor in anchors),
        role,
        final,
    )


_NEAR = r"[^.;()]{0,60}?"
_WORK = r"\b(?:song|single|album|track|ep|record|mixtape|hit|recorded|performed|sung|recording|version|compilation)\b"
RELATIONS: tuple[Relation, ...] = (
    _made(
        "director",
        "name",
        r"directors?|directed by|directed",
        rf"\bdirect(?:ed|ion)\b{_NEAR}\bby\b",
        r"\b(?:film|movie|drama|comedy|documentary|western|serial|short|thriller|picture|feature)\s+(?:film\s+)?by\b",
        r"\bdirectors?\b,?",
        role="director",
    ),
    _made(
        "performer",
        "name",
        r"performers?|singers?|performed by|sung by|sang|artist behind|artist who (?:made|recorded)",
        rf"{_WORK}{_NEAR}\bby\b",
        r"\breleased by\b",
        r"\b(?:singer|band|artist|rapper|group|duo)\b",
        role="singer",
    ),
    _made(
        "composer",
        "name",
        r"composers?|composed|who (?:wrote|scored) the music",
        rf"\b(?:composed|music|scored?|written|soundtrack|songs?|lyrics)\b{_NEAR}\bby\b",
        r"\bcomposer\b",
        role="composer",
    ),
    _made("lyricist", "name", r"lyricist|lyrics by", rf"\b(?:lyrics|written)\b{_NEAR}\bby\b", role="songwriter"),
    _made(
        "author",
        "name",
        r"authors?|writers?|wrote|written by|novelist|playwright",
        rf"\b(?:written|novel|book|play|authored|story|poem|memoir|essay|treatise|comic|series|work)\b{_NEAR}\bby\b",
        r"\b(?:author|writer|novelist|poet|playwright)\b",
        role="writer",
    ),
    _made(
        "screenwriter", "name", r"screenwriter", rf"\b(?:written|screenplay|script)\b{_NEAR}\bby\b", role="screenwriter"
    ),
    _made(
        "producer", "name", r"producers?|produced", rf"\bproduced\b{_NEAR}\bby\b", r"\bproducers?\b", role="producer"
    ),
    _made("editor", "name", r"editor", rf"\bedited\b{_NEAR}\bby\b", r"\beditor\b", role="editor"),
    _made(
        "founder",
        "name",
        r"founders?|founded by|(?:person|people|man|woman) who founded",
        rf"\b(?:founded|established|started|created|formed)\b{_NEAR}\bby\b",
        r"\bfounders?\b",
        role="founder",
    ),
    _made("creator", "name", r"creators?|created by", rf"\b(?:created|developed|designed)\b{_NEAR}\bby\b", role=""),
    _made(
        "owner",
        "name",
        r"owners?|owns|owned by",
        rf"\b(?:owned|acquired|operated)\b{_NEAR}\bby\b",
        r"\b(?:subsidiary|division|unit|brand|property) of\b",
        role="",
    ),
    _made("publisher", "name", r"publishers?|published by", rf"\bpublished\b{_NEAR}\bby\b", role=""),
    _made("developer", "name", r"developers?|developed by", rf"\bdeveloped\b{_NEAR}\bby\b", role=""),
    _made(
        "manufacturer",
        "name",
        r"manufacturers?|manufactured|maker",
        rf"\b(?:manufactured|produced|made|built)\b{_NEAR}\bby\b",
        role="",
    ),
    _made(
        "label",
        "name",
        r"record label|label",
        rf"\b(?:released|issued|signed)\b{_NEAR}\b(?:by|on|through|via|to|with)\b",
        role="record label",
    ),
    _made("starring", "name", r"stars?|starring|actress in|actor in", r"\bstarring\b", r"\bstars\b", role="actor"),
    _made(
        "spouse",
        "name",
        r"husband|wife|spouse|married to|widow|consort|who is .* married",
        r"\b(?:wife|husband|spouse|consort|widow|partner)\s+of\b",
        r"\b(?:first|second|third|his|her|the)\s+(?:wife|husband|spouse|consort)\b,?(?: was| is)?",
        r"\bmarried(?: to)?\b",
        r"\b(?:wife|husband|spouse|consort)\b,?(?: was| is)?",
    ),
    _made(
        "father",
        "name",
        r"father|dad",
        r"\bfather(?:,| was| is| of whom)",
        r"\b(?:son|daughter|child|children|eldest|youngest)\b[^.;()]{0,40}?\bof\b",
        r"\bborn to\b",
        r"\bfather\b",
    ),
    _made(
        "mother",
        "name",
        r"mother|mom",
        r"\bmother(?:,| was| is)",
        r"\b(?:wife|mistress)\b",
        r"\b(?:son|daughter|child|children)\b[^.;()]{0,40}?\bof\b[^.;()]{0,60}?\band\b",
        r"\bborn to\b[^.;()]{0,60}?\band\b",
        r"\bmother\b",
    ),
    _made(
        "child",
        "name",
        r"child|children|son|daughter",
        r"\b(?:father|mother|parent|parents)\b[^.;()]{0,15}?\bof\b",
        r"\b(?:sons?|daughters?|child|children)\b(?!\s+of\b),?",
    ),
    _made(
        "sibling",
        "name",
        r"siblings?|brother|sister|half-brother|half-sister",
        r"\b(?:brother|sister|sibling)s?\b(?:\s+of\b|,| was| is)?",
    ),
    _made(
        "team", "name", r"teams?|club", r"\b(?:plays?|played|playing)\b[^.;()]{0,40}?\b(?:for|with)\b", r"\bmember of\b"
    ),
    _made("party", "name", r"political party|party", r"\bmember of the\b", r"\bparty\b"),
    _made("network", "name", r"network|channel", r"\b(?:aired|broadcast|premiered|shown)\b[^.;()]{0,40}?\bon\b"),
    _made(
        "birth place",
        "place",
        r"(?:place|city|town|state|county|country) of birth|birth ?place|"
        r"where (?:was|were|is)\b.*\bborn|(?:city|town|state|county|country|"
        r"place|village) (?:where|in which|of)\b.*\bborn|born in (?:what|which) (?!year|date|day)\w+|"
        r"(?:what|which) (?:city|town|state|country|place)\b.*\bborn",
        r"\bborn\b[^.;()]{0,60}?\b(?:in|at)\b",
        r"\bnative of\b",
        r"\bborn\b[^.;)]{0,40}?\d{4},",
        r"\bfrom\b",
        final=True,
    ),
    _made(
        "burial place",
        "place",
        r"place of burial|buried",
        r"\b(?:buried|interred)\b[^.;]{0,40}?\b(?:in|at)\b",
        final=True,
    ),
    _made(
        "death place",
        "place",
        r"(?:place|city|town|state|county|country) of death|"
        r"where (?:did|was)\b.*\bdied?|die in (?:what|which) (?!year|date|day)\w+|(?:what|"
        r"which) (?:city|town|state|country|place)\b.*\bdied?",
        r"\b(?:died|death|killed|murdered|executed)\b[^.;()]{0,60}?\b(?:in|at)\b",
        final=True,
    ),
    _made(
        "birth date",
        "date",
        r"date of birth|birth ?dates?|birthday|when (?:was|were|is)\b.*\bborn|(?:what|which) (?:year|"
        r"date|day)\b.*\bborn|born (?:on|in) (?:what|which) (?:year|date|day)|year of birth|"
        r"born (?:first|earlier|later|before|after)|older|younger|age",
        final=True,
    ),
    _made(
        "death date",
        "date",
        r"date of death|death ?dates?|when did\b.*\bdie|when was\b.*\b(?:killed|murdered|executed|"
        r"assassinated)|(?:what|which) (?:year|date|day)\b.*\bdied?|die (?:on|in) (?:what|which)|"
        r"died (?:first|earlier|later|before|after)",
        final=True,
    ),
    _made(
        "cause of death",
        "text",
        r"cause of death|how did\b.*\bdie|die of|die from|why did\b.*\bdie",
        r"\b(?:died|death)\b[^.;()]{0,20}?\b(?:of|from|due to|by)\b",
        final=True,
    ),
    _made(
        "country",
        "country",
        r"nationality|nationalities|country of origin|(?:what|which) country\b.*\bfrom|same country|"
        r"citizen(?:ship)?|country of citizenship",
        final=True,
    ),
    _made(
        "school",
        "name",
        r"educated|study|studied|attend(?:ed)?|alma mater|graduated?(?: from)?",
        r"\b(?:educated|studied|study|graduated|attended|degree|alumnus|alumna)\b[^.;()]{0,60}?\b(?:at|from|of)\b",
        r"\battended\b",
        final=True,
    ),
    _made(
        "award",
        "name",
        r"awards?|prize",
        r"\b(?:won|received|awarded|recipient of|winner of|honou?red with)\b",
        final=True,
    ),
    _made(
        "work place",
        "place",
        r"work at|works at|work in|worked at|employer|employed",
        r"\b(?:works?|worked|working|professor|lecturer|taught|teaches|employed)\b[^.;()]{0,40}?\b(?:at|for|by)\b",
        final=True,
    ),
)
BY_NAME = {relation.name: relation for relation in RELATIONS}
_GRAND = {
    r"paternal grandfather": ("father", "father"),
    r"paternal grandmother": ("father", "mother"),
    r"maternal grandfather": ("mother", "father"),
    r"maternal grandmother": ("mother", "mother"),
    r"father-in-law": ("spouse", "father"),
    r"mother-in-law": ("spouse", "mother"),
    r"(?:brother|sister|sibling)-in-law": ("spouse", "sibling"),
    r"(?:step-?mother)": ("father", "spouse"),
    r"(?:step-?father)": ("mother", "spouse"),
    r"grandfather": ("father", "father"),
    r"grandmother": ("father", "mother"),
    r"(?:uncle|aunt)": ("father", "sibling"),
}
_GRAND_PATTERN = re.compile("|".join(f"\\b(?:{pattern})\\b" for pattern in _GRAND), re.IGNORECASE)


def asked_relations(question: str) -> list[tuple[int, Relation]]:
    """(position, relation) for each relation that a question (its names blanked out) asks for; at most one per spot."""
    found: list[tuple[int, Relation]] = []
    text = question
    for match in _GRAND_PATTERN.finditer(question):
        for pattern, chain in _GRAND.items():
            if re.fullmatch(pattern, match.group(), re.IGNORECASE):
                found.extend((match.start(), BY_NAME[name]) for name in chain)
                break
        text = text[: match.start()] + " " * len(match.group()) + text[match.end() :]
    for relation in RELATIONS:
        for position in _spots(relation, text):
            found.append((position, relation))
            if relation.final:
                break
    return found


def _spots(relation: Relation, text: str) -> Iterator[int]:
    for match in relation.asks.finditer(text):
        # "where was … born": the place of the relation is its last word
        yield max(match.start(), match.end() - 6) if relation.final else match.start()
