"""What to look for next: the names whose pages are wanted, the queries for them, the listed page worth a visit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.backbones.extractive.answering import bridged
from agent.backbones.extractive.chain import Trail
from agent.backbones.extractive.docs import OTHER_HOMES, DocQuestion
from agent.backbones.extractive.names import find_names, key
from agent.backbones.extractive.pages import Hit, Page, Scorer, find_page, sentence_stems, title_match
from agent.backbones.extractive.places import is_country, is_demonym
from agent.backbones.extractive.question import Question
from agent.backbones.extractive.scene import Scene
from agent.backbones.extractive.words import stem

MAX_QUERY_WORDS = 24
_MONTH = re.compile(
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d+)?$"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A name whose page would help. ``weight``: 1 for what the question needs, less for a guess. ``role``: words to
    search for with it; several words are what the question still asks about the name."""

    name: str
    weight: float
    role: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The listed page most worth a visit."""

    url: str
    title: str
    value: float


def wanted(
    question: Question,
    scene: Scene,
    hits: dict[str, Hit],
    pages: Sequence[Page],
    scorer: Scorer,
    found: Sequence[Trail],
) -> list[Wanted]:
    """Names to look for, most needed first."""
    ends = [trail.values[-1].text for trail in found if trail.done and trail.values and question.rest]
    names = [Wanted(name, 0.9) for name in ends if not question.options and find_page(name, pages) is None]
    if not question.options:
        names += [Wanted(name, 0.9, " ".join(question.rest[:8])) for name in ends]
    names += [Wanted(trail.missing, 1.0 if trail.values else 0.9, trail.role) for trail in found if trail.missing]
    last = [trail.values[-1].text for trail in found if question.options and trail.done and trail.values]
    if question.options and any(relation.name == "country" for relation in question.chain):
        # the country of two directors: their own pages say it
        names += [Wanted(name, 1.0, question.chain[0].role) for name in last if find_page(name, pages) is None]
    if not any(item.weight == 1.0 for item in names):
        names += [
            Wanted(name, 0.4 if is_country(name) else 0.8)
            for name in question.names
            if _worth(name) and find_page(name, pages) is None
        ]
        names += bridges(question, pages, scorer)
    best: dict[str, Wanted] = {}
    for item in sorted(names, key=lambda item: -item.weight):
        if not _hopeless(item, scene, hits):
            best.setdefault(key(f"{item.name} {item.role}"), item)
    return list(best.values())


def _hopeless(item: Wanted, scene: Scene, hits: dict[str, Hit]) -> bool:
    """It was asked for by name, and no listed page that is still to be read has the name."""
    forms = {key(item.name), key(f"{item.name} {item.role}")}
    if " " in item.role or not any(key(query) in forms for query in scene.asked):
        return False
    listed = [hits[url].title for url in scene.legal.urls if url in hits]
    return bool(hits) and not any(title_match(item.name, title) >= 0.7 for title in listed)


def bridges(question: Question, pages: Sequence[Page], scorer: Scorer, limit: int = 6) -> list[Wanted]:
    """Salient names in the best passages that the question lacks and no page read is about."""
    said = key(question.text)
    best: dict[str, Wanted] = {}
    for passage in bridged(scorer, pages, 8):
        for name in find_names(passage.text):
            own = key(name.text)
            if not _worth(name.text) or own in said or own in best or find_page(name.text, pages) is not None:
                continue
            if passage.page.title and own in key(passage.page.title):
                continue
            many = 0.1 if " " in name.text else 0.0
            best[own] = Wanted(name.text, min(0.75, 0.3 + 0.5 * passage.score + many))
    return sorted(best.values(), key=lambda item: -item.weight)[:limit]


def queries(
    question: Question, scene: Scene, pages: Sequence[Page], scorer: Scorer, names: Sequence[Wanted]
) -> list[str]:
    """New queries, at most as many as the schema allows; never one that was asked."""
    done = {key(query) for query in scene.asked}
    made: list[str] = []

    def add(query: str) -> None:
        query = " ".join(query.split()[:MAX_QUERY_WORDS])
        if key(query) and key(query) not in done:
            done.add(key(query))
            made.append(query)

    if not done:
        if not question.options:
            add(" ".join(question.words) or question.text)
        for name in question.names:
            if _worth(name):
                add(name)
            if question.doc is not None and "." in name:
                add(name.rpartition(".")[2])
        add(" ".join(question.words) or question.text)
        return made[: scene.legal.max_queries]
    missing = scorer.uncovered(pages)
    words = list(question.rest) or [word for word in question.words if any(word.startswith(w[:4]) for w in missing)]
    for item in names[:3]:
        add(f"{item.name} {item.role}")
        if item.weight < 0.95 and " " not in item.role:
            add(" ".join([item.name, *words]))
    return made[: scene.legal.max_queries]


def choose(
    question: Question,
    urls: Sequence[str],
    hits: dict[str, Hit],
    pages: Sequence[Page],
    names: Sequence[Wanted],
    scorer: Scorer,
) -> Choice | None:
    """The best of the legal URLs, by wanted names in the title, the question's words in title and snippet, and rank."""
    best: Choice | None = None
    seen = {key(page.title) for page in pages}
    for url in urls:
        hit = hits.get(url) or Hit(url, _slug(url), "", 9)
        words = sentence_stems(hit.title) | sentence_stems(hit.snippet)
        value = 0.6 * sum(scorer.weight(word) for word in scorer.words if word in words) / scorer.total
        value += 0.1 / hit.rank
        if question.doc is not None:
            value += _doc_bonus(question.doc, hit)
        for item in names:
            match = title_match(item.name, hit.title)
            if match:
                role = 0.1 if item.role and item.role in f"{hit.title} {hit.snippet}".lower() else 0.0
                value = max(value, item.weight * match + role + 0.2 * value)
            elif " " in item.role and key(item.name) in key(f"{hit.title} {hit.snippet}"):
                value += 0.4 * sum(stem(word) in words for word in item.role.split()) / len(item.role.split())
        if key(hit.title) in seen and hit.title:
            value *= 0.5
        if best is None or value > best.value:
            best = Choice(url, hit.title, value)
    return best


def _doc_bonus(doc: DocQuestion, hit: Hit) -> float:
    """A page or a snippet that has the subject's own name as a word; a page of the module that is named."""
    bonus = 0.3 if doc.module and hit.title.startswith((f"{doc.module} ", f"{doc.module}.")) else 0.0
    for subject in doc.subjects:
        home, _, last = subject.rpartition(".")
        word = re.compile(rf"(?<!\w){re.escape(last)}(?!\w)")
        if word.search(hit.title):
            bonus = max(bonus, 0.6 if subject not in hit.title else 0.9)
            continue
        at_home = bool(home) and hit.title.startswith((f"{home} ", f"{home}.", f"{home.partition('.')[0]} "))
        at_home = at_home or (bool(home) and OTHER_HOMES.get(hit.title.split(" ")[0]) == home)
        bonus = max(bonus, 0.35 * at_home + 0.3 * bool(word.search(hit.snippet)))
    return bonus


def _worth(name: str) -> bool:
    return not is_demonym(name) and len(name) > 2 and not name.replace(" ", "").isdigit() and not _MONTH.match(name)


def _slug(url: str) -> str:
    return " ".join(re.findall(r"[A-Za-z0-9]+", url.rstrip("/").rsplit("/", 1)[-1].rsplit(".", 1)[0]))
