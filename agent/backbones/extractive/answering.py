"""From the pages read to an answer: compare, follow the chain, or read the best sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.backbones.extractive.chain import Trail, Value, countries, follow, later, life_dates, year_of
from agent.backbones.extractive.docs import DocQuestion, answer_doc
from agent.backbones.extractive.names import YEAR, date_value, key
from agent.backbones.extractive.pages import Page, Passage, Scorer, find_page
from agent.backbones.extractive.question import Question
from agent.backbones.extractive.spans import best_span, covers, is_heading

MAX_QUOTE = 400
NOTHING = "I found nothing that answers this in what I could read."


@dataclass(frozen=True, slots=True)
class Answer:
    """``span`` "" when nothing was found. ``support``: the passages that it rests on, in order. ``sure``: it need
    not be looked for any longer."""

    span: str
    support: tuple[Passage, ...]
    sure: bool = False
    quote: str = ""

    def text(self) -> str:
        """First line the short answer, then the supporting sentences with their citations."""
        if not self.span:
            return NOTHING
        quotes = dict.fromkeys(f"{_clip(passage.text)} [c{passage.page.chunk}]" for passage in self.support)
        return "\n".join([self.span, *([self.quote] if self.quote else quotes)])


def trails(question: Question, pages: Sequence[Page]) -> list[Trail]:
    """One trail per thing compared, or per name that the chain may start from (last named first)."""
    chain = [relation for relation in question.chain if relation.name != "country" or not question.options]
    if question.options:
        return [follow(option, chain, pages) if chain else _bare(option, pages) for option in question.options]
    return [follow(name, chain, pages) for name in reversed(question.names)] if chain else []


def answer(question: Question, pages: Sequence[Page], scorer: Scorer, found: Sequence[Trail]) -> Answer:
    """The best answer that the pages allow; never raises."""
    if question.doc is not None:
        told = answer_doc(question.doc, pages)
        if told is not None:
            support = (Passage(told.page, 0, 1.0),) if told.page.sentences else ()
            return Answer(told.span, support, told.sure, quote=f"{told.quote} [c{told.page.chunk}]")
    if question.options and len(found) == 2:
        compared = _compare(question, found, pages)
        if compared:
            return compared
    finished = [trail for trail in found if trail.done and not question.options]
    if finished and not question.rest:
        values = finished[0].values
        return Answer(_shaped(question, values[-1].text), _support(values), sure=True)
    if question.doc is not None and question.doc.subjects and not _spoken_of(question.doc, pages):
        return Answer("", ())
    read = _read(question, pages, scorer, found)
    if question.options and question.kind == "choice" and read.span:
        # undecided: still one of the two
        return Answer(question.options[0], read.support)
    return read


def _spoken_of(doc: DocQuestion, pages: Sequence[Page]) -> bool:
    """Whether any page has the name that a question about documentation is about."""
    names = [re.escape(subject.rpartition(".")[2]) for subject in doc.subjects]
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)")
    return any(pattern.search(page.text) for page in pages)


def _shaped(question: Question, text: str) -> str:
    """A year where a year was asked for."""
    year = YEAR.search(text) if question.kind == "year" else None
    return year.group() if year else text


def _bare(name: str, pages: Sequence[Page]) -> Trail:
    page = find_page(name, pages)
    return Trail((), missing="" if page else name, done=page is not None, page=page)


def _compare(question: Question, found: Sequence[Trail], pages: Sequence[Page]) -> Answer | None:
    if question.order and question.kind == "choice":
        return _ordered(question, found)
    ends = [_end_page(question, trail, pages) for trail in found]
    if question.kind == "yesno" and any(relation.name == "country" for relation in question.chain):
        return _same_country(found, ends)
    words = [word for word in question.words if not any(word in key(option).split() for option in question.options)]
    shares = [covers(words, page) if page else 0.0 for page in ends]
    support = tuple(Passage(page, 0, 1.0) for page in ends if page)
    if not support:
        return None
    sure = all(ends)
    if question.kind == "yesno":
        words = [word for word in words if word not in ("same", "both", "type", "types")]
        shares = [covers(words, page) if page else 0.0 for page in ends]
        return Answer("yes" if min(shares) >= 0.5 else "no", support, sure)
    pick = 0 if shares[0] >= shares[1] else 1
    return Answer(question.options[pick], support, sure)


def _end_page(question: Question, trail: Trail, pages: Sequence[Page]) -> Page | None:
    if trail.values and trail.done:
        return find_page(trail.values[-1].text, pages)
    return trail.page if trail.done else None


def _same_country(found: Sequence[Trail], ends: Sequence[Page | None]) -> Answer | None:
    if not all(ends):
        return None
    sets = [countries(page) if page else set() for page in ends]
    support = [value.passage for trail in found for value in trail.values]
    support += [Passage(page, 0, 1.0) for page in ends if page]
    return Answer("yes" if sets[0] & sets[1] else "no", tuple(support), sure=all(sets))


def _ordered(question: Question, found: Sequence[Trail]) -> Answer | None:
    values = [_comparable(question, trail) for trail in found]
    left, right = values
    if left is None or right is None:
        return None
    if question.order == "span":
        spans = [_span(trail.page) for trail in found]
        pick = 0 if spans[0] >= spans[1] else 1
    else:
        order = later(left.text, right.text)
        pick = 0 if (order <= 0) == (question.order == "min") else 1
    support = [value.passage for trail in found for value in trail.values] + [left.passage, right.passage]
    return Answer(question.options[pick], tuple(support), sure=True)


def _comparable(question: Question, trail: Trail) -> Value | None:
    if any(relation.kind == "date" for relation in question.chain):
        return trail.values[-1] if trail.done and trail.values else None
    return year_of(trail.page) if trail.done and trail.page else None


def _span(page: Page | None) -> int:
    birth, death = life_dates(page) if page else (None, None)
    start, end = date_value(birth.text) if birth else None, date_value(death.text) if death else None
    if start is None or end is None:
        return 0
    return (end[0] - start[0]) * 372 + (end[1] - start[1]) * 31 + end[2] - start[2]


def _read(question: Question, pages: Sequence[Page], scorer: Scorer, found: Sequence[Trail]) -> Answer:
    ends = [trail.values[-1].text for trail in found if trail.values] if not question.options else []
    passages = bridged(scorer, pages, ends=ends)
    span = best_span(question, passages, scorer)
    told = tuple(passage for trail in found[:1] for passage in _support(trail.values))
    if span is None:
        if not passages:
            return Answer("", ())
        said = (p for p in passages if not is_heading(p.text) and key(p.text) != key(p.page.title))
        best = next(said, None)
        if best is None:
            return Answer("", ())
        if question.kind == "yesno":
            return Answer("yes" if best.score > 0.5 else "no", (best,))
        return Answer(_clip(best.text, 120), (best,))
    if question.kind == "yesno":
        return Answer("yes" if span.passage.score > 0.5 else "no", (span.passage,))
    return Answer(span.text, (*told, span.passage))


def bridged(scorer: Scorer, pages: Sequence[Page], limit: int = 12, ends: Sequence[str] = ()) -> list[Passage]:
    """The best passages; one on a page that a good passage of another page names is worth more (the second hop), and
    one that names what a chain ended in."""
    passages = scorer.passages(40)
    named: dict[str, float] = {}
    for passage in passages[:10]:
        text = f" {key(passage.text)} "
        for page in pages:
            title = key(page.title)
            if page.chunk != passage.page.chunk and title and f" {title} " in text:
                named[title] = max(named.get(title, 0.0), passage.score)
    wanted = [f" {key(end)} " for end in ends]
    raised: list[Passage] = []
    for p in passages:
        bonus = 0.3 * named.get(key(p.page.title), 0.0)
        if wanted and any(end in f" {key(p.page.title)} {key(p.text)} " for end in wanted):
            bonus += 0.2
        raised.append(Passage(p.page, p.index, p.score + bonus))
    raised.sort(key=lambda p: (-p.score, p.page.chunk, p.index))
    return raised[:limit]


def _support(values: Sequence[Value]) -> tuple[Passage, ...]:
    return tuple(value.passage for value in values)


def _clip(text: str, limit: int = MAX_QUOTE) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
