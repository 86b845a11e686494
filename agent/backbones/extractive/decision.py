"""One step of the policy: out of what is visible and what is legal, the next action."""

from __future__ import annotations

from dataclasses import dataclass

from agent.backbones.extractive.answering import NOTHING, Answer, answer, bridged, trails
from agent.backbones.extractive.attached import is_attached, next_part
from agent.backbones.extractive.names import key
from agent.backbones.extractive.pages import Hit, Page, Passage, Scorer, block_title, read_hits, read_pages, title_match
from agent.backbones.extractive.planning import Choice, Wanted, choose, queries, wanted
from agent.backbones.extractive.question import Question, analyse
from agent.backbones.extractive.scene import Scene
from memory.records import JsonValue

MAX_VISITS = 6
"""Pages read for one question; two more when a chain is being followed."""
TOLD = 0.9
"""Score of a passage of an attached file from which nothing else is looked for."""
WEAK = 0.35
"""Score below which a passage is no answer where nothing but files was read."""
MAX_GLIMPSES = 3
"""For one question."""
GOOD = 0.42
"""Value from which a listed page is worth a visit that nothing forces."""


@dataclass(frozen=True, slots=True)
class _View:
    question: Question
    pages: list[Page]
    hits: dict[str, Hit]
    names: list[Wanted]
    found: Answer
    scorer: Scorer
    files_alone: bool = False
    """Files were read for the question, and no page."""


def decide(scene: Scene) -> dict[str, JsonValue]:
    """The action as the guided dialect writes it; always one that the schema allows."""
    legal = scene.legal
    view = _view(scene)
    part = next_part(scene)
    if part is not None and not (legal.answer and view.found.sure):
        return {"thought": f"read {part[0]}", "action": "parse_file", "file": part[0], "page": part[1]}
    choice = choose(view.question, legal.urls, view.hits, view.pages, view.names, view.scorer)
    if legal.answer:
        if view.found.sure or _told_by_a_file(view, scene) or not (legal.search or legal.urls or legal.glimpses):
            return _answer(view)
        chunk = _worth_a_glimpse(view, scene)
        if chunk:
            return {"thought": f"see {chunk} in full", "action": "glimpse", "chunk_id": chunk}
        limit = 4 if view.question.doc is not None and view.found.span else MAX_VISITS
        limit += 2 if any(item.weight >= 0.95 for item in view.names) else 0
        if scene.visits >= limit:
            return _answer(view)
    # a name that the question needs and no list shows is searched for before a page is read on a guess
    needed = [item for item in view.names if item.weight >= 0.9]
    made = queries(view.question, scene, view.pages, view.scorer, needed or view.names) if legal.search else []
    if legal.search and needed and not made:
        needed, made = [], queries(view.question, scene, view.pages, view.scorer, view.names)
    unlisted = bool(needed) and (choice is None or choice.value < needed[0].weight * 0.7)
    if choice is not None and (not legal.answer or (choice.value >= GOOD and not (unlisted and made))):
        return _visit(choice, view)
    if legal.search:
        if made and (not legal.answer or _rounds(scene) < 4):
            return {"thought": "look for " + "; ".join(made), "action": "search", "queries": list(made)}
        if not legal.answer:
            return {"action": "search", "queries": [_fresh(view.question, scene)]}
    if legal.answer:
        return _answer(view)
    return _visit(choice, view) if choice else _answer(view)


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to read for an answer, best first. ``found``: what the policy itself makes of it."""

    question: str
    passages: tuple[Passage, ...]
    found: Answer


def reading(scene: Scene) -> Reading:
    """The passages that bear on the question, for whoever reads better than the policy does."""
    view = _view(scene)
    best = dict.fromkeys([*view.found.support, *bridged(view.scorer, view.pages)])
    return Reading(view.question.text, tuple(best), view.found)


def _view(scene: Scene) -> _View:
    question = analyse(scene.question)
    pages = read_pages(scene)
    scorer = Scorer(question.words, pages)
    found = trails(question, pages)
    hits = read_hits(scene.blocks)
    names = wanted(question, scene, hits, pages, scorer, found)
    alone = any(map(is_attached, scene.blocks)) and not scene.visits
    return _View(question, pages, hits, names, answer(question, pages, scorer, found), scorer, alone)


def _told_by_a_file(view: _View, scene: Scene) -> bool:
    """Whether the answer stands in an attached file that speaks of everything the question asks."""
    files = {block.chunk for block in scene.blocks if is_attached(block)}
    return any(passage.page.chunk in files and passage.score >= TOLD for passage in view.found.support)


def _worth_a_glimpse(view: _View, scene: Scene) -> str:
    """The compressed chunk that the answer rests on, or that is about a name looked for; "" when there is none."""
    if sum(block.tool == "glimpse" for block in scene.blocks if block.current) >= MAX_GLIMPSES:
        return ""
    legal = set(scene.legal.glimpses)
    for passage in view.found.support:
        if not passage.page.whole and f"c{passage.page.chunk}" in legal:
            return f"c{passage.page.chunk}"
    shown = {page.chunk for page in view.pages if page.whole}
    names = [*view.question.names, *(item.name for item in view.names)]
    for block in reversed(scene.blocks):
        if block.tool == "visit" and block.chunk not in shown and f"c{block.chunk}" in legal:
            title = block_title(block, view.hits)
            if any(title_match(name, title) >= 0.7 for name in names):
                return f"c{block.chunk}"
    return ""


def _rounds(scene: Scene) -> int:
    return sum(block.tool == "search" for block in scene.blocks if block.current)


def _fresh(question: Question, scene: Scene) -> str:
    """A query that was not asked yet, when one must be made."""
    done = {key(query) for query in scene.asked}
    words = list(question.words) or [question.text[:80] or "overview"]
    for start in range(len(words)):
        query = " ".join(words[start : start + 4])
        if key(query) not in done:
            return query
    return f"{' '.join(words[:6])} {len(done)}"


def _visit(choice: Choice, view: _View) -> dict[str, JsonValue]:
    return {
        "thought": f"read {choice.title}" if choice.title else "read",
        "action": "visit",
        "urls": [choice.url],
        "goal": view.question.text,
    }


def _answer(view: _View) -> dict[str, JsonValue]:
    weak = view.files_alone and max((passage.score for passage in view.found.support), default=1.0) < WEAK
    return {"action": "answer", "answer": NOTHING if weak else view.found.text()}
