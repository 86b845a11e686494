"""What a question asks: the kind of answer, the names it gives, the relations that lead from them, what it compares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from agent.backbones.extractive.docs import DocQuestion, doc_question
from agent.backbones.extractive.names import Name, find_names, quotations
from agent.backbones.extractive.relations import BY_NAME, Relation, asked_relations
from agent.backbones.extractive.words import content_words, stem

Kind: TypeAlias = Literal["yesno", "choice", "person", "place", "date", "year", "number", "country", "title", "thing"]
Order: TypeAlias = Literal["", "min", "max", "span"]
_YESNO = re.compile(r"^(?:are|is|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_SAME = re.compile(
    r"^(?:[Aa]re|[Ii]s|[Ww]as|[Ww]ere|[Dd]oe?s?|[Dd]id|[Hh]ave|[Hh]as)\s+(?P<left>.+?),?\s+and\s+(?P<right>.+?),?\s*"
    r"(?:\b(?:both|from|located|share|sharing|have|has|had|originate[ds]?|originally|come|came|based|born|belong|"
    r"considered|made|work|worked|released|films|movies|members|bands|types|magazines|known|used|related|operate|play|"
    r"same|a|an|die|died|situated|found|(?:of|in|on|at|to|by) the same)(?=[\s?,]).*|\?)$"
)
_FILLER = re.compile(
    r"^(?:(?:both|the|movies?|films?|bands?|directors?|composers?|performers?|authors?|of|high|schools?|songs?|books?|"
    r"magazines?|villages?|albums?|people|either)\b,?\s*)+"
)
_LEAD = re.compile(r"^(?:film|movie|song|book|band|magazine)\s+", re.IGNORECASE)
_MORE = r"(?:first|earlier|before|older|oldest|earliest|former)"
_LESS = r"(?:later|recently|recent|younger|youngest|newer|after|last|latest|newest)"
_WH = re.compile(
    r"\b(who|whom|whose|where|when|what|which|how (?:many|much|long|old|far|tall|large|big|high|"
    r"deep|wide|heavy|fast|often|thick|steep))\b",
    re.IGNORECASE,
)
_ELSEWHERE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("person", re.compile(r"^\W*(?:wer|wen|wem|qui|quién|chi|кто)\b|谁|誰", re.IGNORECASE)),
    ("date", re.compile(r"^\W*(?:wann|quand|cuándo|quando|когда)\b|何时|什么时候|いつ", re.IGNORECASE)),
    ("year", re.compile(r"哪一?年|何年")),
    ("place", re.compile(r"^\W*(?:wo|où|dónde|dove|где)\b|哪里|哪儿|どこ", re.IGNORECASE)),
    (
        "number",
        re.compile(
            r"^\W*(?:wie (?:hoch|viele?|lang|alt|groß|tief)|combien|cuánt[oa]s?|сколько)\b|多少|多高|几[个人米年天次]",
            re.IGNORECASE,
        ),
    ),
)
"""Question words of other languages, by what they ask for."""
_TOLD_WORDS = (
    "director directed performer singer sang sung performed composer composed music lyricist lyrics author writer "
    "wrote written producer produced founder founded creator created owner owns owned publisher published developer "
    "developed label record husband wife spouse married father mother child son daughter sibling brother sister team "
    "party born birth birthplace birthday date place die died death buried burial nationality country citizen cause "
    "school study studied educated award won receive received got work grandfather grandmother paternal maternal law "
    "film movie song album band book novel single person man woman year city town state village come came origin "
    "originate origin shared share located release released first earlier later older younger recently recent play "
    "show series maker star starring starred actor actress main old many much day time people kind type"
)
_TOLD = frozenset(_TOLD_WORDS.split())
_TOLD_STEMS = frozenset(stem(word) for word in _TOLD)
_VERB = re.compile(
    r"(?<!^)\b(?:is|was|are|were|did|does|do|has|had|have|that|who|whose|which|where|of|in|for|to|on|at|by|from|with|can|"
    r"could|will|would|[a-z]+ed)\b"
)
PERSON = (
    "person|man|woman|actor|actress|singer|director|author|writer|composer|player|footballer|president|king|queen|"
    "politician|musician|artist|wrestler|coach|manager|member|character|prime minister|general|emperor|scientist|"
    "physicist|philosopher|poet|painter|designer|architect|rapper|drummer|guitarist|comedian|astronaut|heir|saint"
)
_PLACE = (
    "city|town|village|county|state|province|region|district|river|island|continent|capital|location|suburb|borough|"
    "municipality|place|mountain|lake|ocean|sea|street|neighbou?rhood|country|part"
)
_NOUNS: tuple[tuple[Kind, str], ...] = (
    ("country", "nationality|country"),
    ("year", "year"),
    ("date", "date|day|birthday"),
    ("number", "number|percentage|percent|amount|population|age|area code|distance|height|length|size"),
    ("person", PERSON),
    ("place", _PLACE),
    ("title", "film|movie|song|album|book|novel|show|series|single|magazine|play|opera|episode|game|band|documentary"),
)


@dataclass(frozen=True, slots=True)
class Question:
    """``names``: what to start from, longest first mention first. ``chain``: relations from the name outwards.

    ``options``: the two things compared. ``order``: which of them is asked for (min: the earlier, span: the longer
    life). ``noun``: the word after what/which. ``words``: content words, in order, distinct. ``rest``: those of them
    that neither the names nor the relations account for; where a chain leaves some, its end is not yet the answer.
    """

    text: str
    kind: Kind
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    chain: tuple[Relation, ...] = ()
    order: Order = ""
    noun: str = ""
    words: tuple[str, ...] = ()
    doc: DocQuestion | None = None
    rest: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def analyse(text: str) -> Question:
    """Never fails; an empty question gives an empty analysis."""
    text = " ".join(text.split())
    doc = doc_question(text)
    if doc is not None and doc.subjects:
        return Question(text, "thing", doc.subjects, words=tuple(content_words(text)), doc=doc)
    options, order = _options(text), _order(text)
    names = tuple(dict.fromkeys([*options, *(name.text for name in question_names(text))]))
    yesno = bool(_YESNO.match(text)) and " or " not in text
    kind: Kind = "yesno" if yesno else "choice" if options else _kind(text)
    chain = () if kind == "choice" and not order else _chain(text, options or names, order if options else "")
    words = tuple(content_words(text))
    told = {word for name in names for word in content_words(name)} | _TOLD
    rest = tuple(word for word in words if word not in told and stem(word) not in _TOLD_STEMS)
    return Question(text, kind, names, options, chain, order, _noun(text), words, doc, rest)


def question_names(text: str) -> list[Name]:
    """Quotations, then names outside them, in order of appearance; the question's first word is none by itself."""
    quoted = quotations(text)
    blank = text
    for quote in quoted:
        blank = blank[: quote.start] + " " * (quote.end - quote.start) + blank[quote.end :]
    first = re.match(r"\s*\w+", blank)
    if first and (
        _WH.match(blank.strip())
        or _YESNO.match(blank.strip())
        or first.group().strip().lower() in ("along", "besides", "name")
    ):
        blank = " " * first.end() + blank[first.end() :]
    joined: list[Name] = []
    for name in find_names(blank):
        if joined and text[joined[-1].end : name.start] in ("! ", ": ", "? "):
            start = joined.pop().start
            name = Name(text[start : name.end], start, name.end)
        joined.append(name)
    return sorted([*quoted, *joined], key=lambda name: name.start)


def _options(text: str) -> tuple[str, ...]:
    """The two things that a question compares, or nothing."""
    pair = _either(text) if " or " in text else _both(text)
    if pair is None:
        return ()
    cleaned = tuple(_clean_option(option) for option in pair)
    if not all(cleaned) or any(len(option) > 90 for option in cleaned) or not any(ch.isupper() for ch in cleaned[0]):
        return ()
    return cleaned


def _either(text: str) -> tuple[str, str] | None:
    """``Which …, X or Y?``: what stands after the first comma; without a comma, the names beside the ``or``."""
    head, comma, rest = text.partition(", ")
    if comma and " or " in rest and _WH.search(head):
        left, _, right = rest.partition(" or ")
        return left, right
    left, _, right = text.rpartition(" or ")
    before, after = find_names(left), find_names(right)
    return (before[-1].text, after[0].text) if before and after and after[0].start < 12 else None


def _both(text: str) -> tuple[str, str] | None:
    match = _SAME.match(text)
    return (match["left"], match["right"]) if match else None


def _clean_option(text: str) -> str:
    text = text.strip(' ,?."“”')
    before = None
    while before != text:
        before = text
        text = _FILLER.sub("", text)
        text = _LEAD.sub("", text) if text[:1].islower() else text
    return text.strip(' ,?."“”')


def _order(text: str) -> Order:
    lower = text.lower()
    if re.search(r"\b(?:lived|life|living)\b.*\blonger\b|\blonger\b.*\b(?:life|lived)\b", lower):
        return "span"
    if re.search(rf"\b{_LESS}\b", lower):
        return "max"
    return "min" if re.search(rf"\b{_MORE}\b", lower) else ""


def _kind(text: str) -> Kind:
    match = _WH.search(text)
    if match is None:
        return next((kind for kind, words in _ELSEWHERE if words.search(text)), "thing")
    word = match[1].lower()
    if word in ("who", "whom"):
        return "person"
    if word == "where":
        return "place"
    if word == "when":
        return "date"
    if word.startswith("how"):
        return "number"
    after = _VERB.split(text[match.end() : match.end() + 60].lower().lstrip(), maxsplit=1)[0]
    for kind, nouns in _NOUNS:
        if re.search(rf"\b(?:{nouns})s?\b", after):
            return kind
    return "thing"


def _noun(text: str) -> str:
    match = re.search(r"\b(?:what|which)\s+(?!is|was|are|were|did|does|do\b)([^,?]{2,60})", text, re.IGNORECASE)
    words = _VERB.split(match[1].lower(), maxsplit=1)[0].split() if match else []
    return words[-1] if words else ""


def _chain(text: str, anchors: tuple[str, ...], order: Order) -> tuple[Relation, ...]:
    blank = text
    places: list[int] = []
    for anchor in anchors:
        at = blank.find(anchor)
        if at >= 0:
            places.append(at)
            blank = blank[:at] + "_" * len(anchor) + blank[at + len(anchor) :]
    asked = asked_relations(blank)
    if order and not any(relation.final for _, relation in asked):
        asked = (
            [pair for pair in asked if pair[1].name in ("director", "performer", "composer", "author")]
            if "whose" in text or "has the" in text
            else []
        )
    if not places or (len(anchors) > 1 and not _compares(text)):
        near = places[-1] if places else len(text)
    else:
        near = places[0]
    ordered = sorted(asked, key=lambda pair: (pair[1].final, abs(pair[0] - near)))
    chain: list[Relation] = []
    for _, relation in ordered:
        if relation.final and chain and chain[-1].final:
            continue
        if chain and chain[-1] is relation and relation.name not in ("father", "mother"):
            continue
        chain.append(relation)
    if order == "span":
        return (*[relation for relation in chain if not relation.final], BY_NAME["birth date"])
    return tuple(chain[:4])


def _compares(text: str) -> bool:
    return bool(_options(text))
