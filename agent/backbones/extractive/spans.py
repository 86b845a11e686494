"""Short answers out of sentences, by the kind of answer that a question asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.backbones.extractive.names import DATE, NUMBER, YEAR, find_names, key, quotations
from agent.backbones.extractive.pages import Page, Passage, Scorer, sentence_stems
from agent.backbones.extractive.places import is_demonym, mentions
from agent.backbones.extractive.question import PERSON, Question
from agent.backbones.extractive.words import stem
from memory.text.words import tokenize

_IS_A = re.compile(r"\b(?:is|was|are|were|as)\s+(?:an?|the|one of the)\s+([^.,;()]{3,80})")
_PREPOSITION = re.compile(r"\b(?:in|from|at|of|near|to|outside|around)\s+(?:the\s+)?$|,\s*$")
_CUE = re.compile(r"((?:[\w'-]+\s+){2})(?:what|who|whom|which|where)\b(?:\s+[\w-]+){0,3}\s*\?*$", re.IGNORECASE)
_PHRASE = re.compile(r"\s*((?:an?\s+|the\s+)?[\w'’ -]{2,60}?)(?=[,.;:()]|\s(?:that|which|who|and|in|on|at|by|for)\b|$)")
_SOMEBODY = re.compile(rf"\b(?:he|she|his|her|born|{PERSON})s?\b|\b(?:1[0-9]|20)\d\d\s?[–-]", re.IGNORECASE)
_OPENING = re.compile(r"([^.:;(]{1,80}?)(?:\s*\(|,|\s(?:is|was)\b|\.\s)")
_MARK = re.compile(r"\s*(?:#|/history\b|<|>|\||\*\*|={3}|-{3}|`{3})|\W*$")
"""Headings and the marks that frame data: no answer begins so."""
_PRONOUN = re.compile(r"^(?:He|She|It|They|His|Her|Its|Their|The)\b")


@dataclass(frozen=True, slots=True)
class Span:
    """A candidate answer in a passage."""

    text: str
    passage: Passage
    score: float


def best_span(question: Question, passages: Sequence[Passage], scorer: Scorer) -> Span | None:
    """The best candidate over the passages, or None when none holds one of the right kind."""
    best: Span | None = None
    for passage in passages:
        for text, start, bonus in _candidates(question, passage):
            if not _is_new(text, question):
                continue
            score = passage.score + bonus + 0.25 * _nearness(passage.text, start, len(text), scorer)
            if best is None or score > best.score:
                best = Span(text, passage, score)
    return best


def _candidates(question: Question, passage: Passage) -> Iterator[tuple[str, int, float]]:
    """(text, start in the sentence or -1, bonus)."""
    sentence = passage.text
    match question.kind:
        case "date" | "year":
            pattern = YEAR if question.kind == "year" else DATE
            yield from ((m.group(), m.start(), 0.3) for m in pattern.finditer(sentence))
            if question.kind == "date":
                yield from ((m.group(), m.start(), 0.15) for m in YEAR.finditer(sentence))
        case "number":
            for m in NUMBER.finditer(sentence):
                year = YEAR.fullmatch(m.group()) is not None
                noun = _follows(sentence, m.end(), question)
                yield m.group().strip(), m.start(), (0.0 if year else 0.25) + noun
        case "country":
            yield from ((m.text, m.start, 0.25) for m in mentions(sentence))
        case _:
            yield from _name_candidates(question, passage)


def _name_candidates(question: Question, passage: Passage) -> Iterator[tuple[str, int, float]]:
    sentence, page = passage.text, passage.page
    wants_title = question.kind == "title"
    subject = page.title
    about = passage.index < 2 or _PRONOUN.match(sentence)
    if subject and about and _may_be(question, subject) and _is_subject(question, page):
        yield re.sub(r"\s*\([^()]*\)$", "", subject), 0, 0.2 if question.kind in ("person", "title", "place") else 0.1
    for quote in quotations(sentence):
        yield quote.text, quote.start, 0.2 if wants_title else 0.0
    for name in find_names(sentence):
        if is_demonym(name.text) or DATE.match(name.text) or _is_no_person(question, page, name.text):
            continue
        person = " " in name.text
        noun = 0.25 if question.noun and question.noun in name.text.lower() else 0.0
        if question.kind == "place":
            noun += 0.2 if _PREPOSITION.search(sentence[max(0, name.start - 12) : name.start]) else -0.1
        yield (
            name.text,
            name.start,
            noun + _after_cue(question, sentence, name.start) + (0.1 if person or question.kind != "person" else 0.0),
        )
    if question.kind == "thing":
        for match in _IS_A.finditer(sentence):
            yield match[1].strip(), match.start(1), 0.0
        cue = _cue(question)
        at = sentence.lower().find(cue) if cue else -1
        phrase = _PHRASE.match(sentence[at + len(cue) :]) if at >= 0 else None
        if phrase:
            yield phrase[1].strip(), at + len(cue), 0.45


def _may_be(question: Question, title: str) -> bool:
    """Whether the subject of a page may be the answer: a place asked for by its kind carries it in its name, mostly."""
    return question.kind != "place" or not question.noun or question.noun in title.lower()


def _is_subject(question: Question, page: Page) -> bool:
    """Whether the lead of a page speaks of what its title names, and of somebody where somebody is asked for: else a
    title is only what stands above the text."""
    title = re.sub(r"\s*\([^()]*\)$", "", page.title)
    words = sentence_stems(title)
    if not words & sentence_stems(" ".join(page.sentences[:2])):
        return False
    if question.kind != "person":
        return True
    opening = _OPENING.match(page.sentences[0])
    named = find_names(opening[1]) if opening else []
    about_it = any(words & sentence_stems(name.text) for name in named)
    somebody = _SOMEBODY.search(" ".join(page.sentences[:4])) is not None
    return about_it and somebody and not any(ch.isdigit() for ch in title)


def _is_no_person(question: Question, page: Page, name: str) -> bool:
    """Whether somebody is asked for, and a name has a number in it or is that of a page about something else."""
    if question.kind != "person":
        return False
    return any(ch.isdigit() for ch in name) or (key(name) == key(page.title) and not _is_subject(question, page))


def _cue(question: Question) -> str:
    """The words that stand before a question word at the end of a question (``… was assassinated as part of what``)."""
    match = _CUE.search(question.text)
    return match[1].lower().strip() if match else ""


def _after_cue(question: Question, sentence: str, start: int) -> float:
    cue = _cue(question)
    return 0.3 if cue and cue in sentence[max(0, start - 40) : start].lower() else 0.0


def _follows(sentence: str, at: int, question: Question) -> float:
    """A number stands before the thing that is counted."""
    words = {stem(word) for word in question.words}
    after = [stem(term) for term in tokenize(sentence[at : at + 40])[:3]]
    return 0.3 if any(term in words for term in after) else 0.0


def is_heading(text: str) -> bool:
    """Whether a text is a heading or a frame line rather than something said."""
    return _MARK.match(text) is not None


def _is_new(text: str, question: Question) -> bool:
    """Whether a candidate says something that the question does not say already."""
    if not text or len(text) > 120 or is_heading(text):
        return False
    own = sentence_stems(text)
    if not own:
        return any(ch.isdigit() for ch in text) and text not in question.text
    return not own <= {stem(word) for word in question.words} and key(text) not in key(question.text)


def _nearness(sentence: str, start: int, length: int, scorer: Scorer) -> float:
    """0 to 1: weight of the question's words close to the candidate."""
    if start < 0:
        return 0.0
    near = sentence[max(0, start - 60) : start] + " " + sentence[start + length : start + length + 60]
    return sum(scorer.weight(term) for term in {stem(term) for term in tokenize(near)}) / scorer.total


def covers(words: Sequence[str], page: Page, sentences: int = 6) -> float:
    """Share of words that the lead of a page has."""
    if not words:
        return 0.0
    seen = sentence_stems(page.title)
    for sentence in page.sentences[:sentences]:
        seen = seen | sentence_stems(sentence)
    return sum(stem(word) in seen for word in words) / len(words)
