"""One step of the policy: out of what is visible and what is legal, the next action."""

from __future__ import annotations

from dataclasses import dataclass

from agent.backbones.extractive.answering import Answer, answer, trails
from agent.backbones.extractive.names import key
from agent.backbones.extractive.pages import Page, Scorer, read_hits, read_pages
from agent.backbones.extractive.planning import Choice, Wanted, choose, queries, wanted
from agent.backbones.extractive.question import Question, analyse
from agent.backbones.extractive.scene import Scene
from memory.records import JsonValue

MAX_VISITS = 6
"""Pages read for one question; two more when a chain is being followed."""
GOOD = 0.42
"""Value from which a listed page is worth a visit that nothing forces."""


@dataclass(frozen=True, slots=True)
class _View:
    question: Question
    pages: list[Page]
    names: list[Wanted]
    found: Answer
    scorer: Scorer


def decide(scene: Scene) -> dict[str, JsonValue]:
    """The action as the guided dialect writes it; always one that the schema allows."""
    legal = scene.legal
    view = _view(scene)
    choice = choose(view.question, legal.urls, read_hits(scene.blocks), view.pages, view.names, view.scorer)
    if legal.answer:
        if not (legal.search or legal.urls or legal.glimpses) or (
            scene.steps_left is not None and scene.steps_left <= 1
        ):
            return _answer(view)
        if view.found.sure:
            return _answer(view)
        limit = MAX_VISITS + (2 if any(item.weight >= 0.95 for item in view.names) else 0)
        if scene.visits >= limit:
            return _answer(view)
    if choice is not None and (not legal.answer or _worth_it(choice, view, scene)):
        return _visit(choice, view)
    if legal.search:
        made = queries(view.question, scene, view.pages, view.scorer, view.names)
        if made and (not legal.answer or _rounds(scene) < 4):
            return {"thought": "look for " + "; ".join(made), "action": "search", "queries": list(made)}
        if not legal.answer:
            return {"action": "search", "queries": [_fresh(view.question, scene)]}
    if legal.answer:
        return _answer(view)
    return _visit(choice, view) if choice else _answer(view)


def _view(scene: Scene) -> _View:
    question = analyse(scene.question)
    pages = read_pages(scene)
    scorer = Scorer(question.words, pages)
    found = trails(question, pages)
    names = wanted(question, pages, scorer, found)
    return _View(question, pages, names, answer(question, pages, scorer, found), scorer)


def _worth_it(choice: Choice, view: _View, scene: Scene) -> bool:
    return choice.value >= GOOD


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
    return {"action": "answer", "answer": view.found.text()}
