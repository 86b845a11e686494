"""Planted recall: sessions of visits, what is asked of them, and what counts as a hit."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from memory.encoders.factory import EncoderConfig
from runners.errors import UsageFault
from runners.replay.engine import Walk
from runners.replay.planted import (
    Asked,
    Page,
    PlantedJob,
    Sentences,
    build_session,
    evidence,
    mentions,
    read_collection,
)
from runners.replay.working import Settings
from tests.runners.replay.hand import FILLER, act, prepared, tools, variant


def collection(count: int = 30) -> tuple[list[Asked], dict[str, Page]]:
    """``count`` questions with three pages each, one of which states the answer."""
    questions, pages = [], {}
    for number in range(count):
        names = [f"p{number}a", f"p{number}b", f"p{number}c"]
        bodies = [f"{FILLER} It was built by Person{number}. {FILLER}", FILLER, FILLER]
        pages |= {
            name: Page(page_id=name, title=f"Mill {number}", text=body)
            for name, body in zip(names, bodies, strict=True)
        }
        questions.append(
            Asked(
                id=f"q{number}",
                question=f"Who built mill {number}?",
                answer=f"Person{number}",
                supporting_pages=[names[0]],
                context_pages=names,
            )
        )
    return questions, pages


def test_a_session_visits_every_page_once_under_its_question() -> None:
    questions, pages = collection()
    built = build_session(questions, pages, 60, seed=3)
    urls = [step.source.url for step in built.recording.steps if step.source]
    assert len(set(urls)) == len(urls) == 60
    for step in built.recording.steps:
        assert step.source is not None
        assert built.recording.question_at(step.number).text.split()[-1].rstrip("?") == step.source.title.split()[-1]
    assert built == build_session(questions, pages, 60, seed=3)
    assert built != build_session(questions, pages, 60, seed=4)


def test_probes_come_d_steps_after_the_page_with_the_answer() -> None:
    questions, pages = collection()
    built = build_session(questions, pages, 60, seed=1, probes=5)
    assert {probe.distance for probe in built.probes} == {10, 30}
    for probe in built.probes:
        seen = built.recording.steps[probe.source - 1].observations[0].text
        assert probe.sentence in seen
        assert probe.sentence.startswith("It was built by Person")
        assert 1 <= probe.source < probe.step <= 61


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("Who built it?", "Ada Holm", (7, "Built by Ada Holm in 1911.")),
        ("Who built it?", "ada  holm", (7, "Built by Ada Holm in 1911.")),
        ("Who built it?", "Ada Hol", None),
        ("Did Ada Holm build it?", "Ada Holm", None),
        ("Was it built?", "yes", None),
    ],
)
def test_the_sentence_that_bears_the_answer(question: str, answer: str, found: tuple[int, str] | None) -> None:
    page = Page(page_id="p", title="T", text="It is old. Built by Ada Holm in 1911. It burnt.")
    asked = Asked(id="q", question=question, answer=answer, supporting_pages=["x", "p"])
    assert evidence(asked, {"p": page}, {"p": 7}) == found


def test_mentions_are_whole_words() -> None:
    assert mentions("in 1911, by ADA HOLM.", "Ada Holm")
    assert not mentions("in 19110", "1911")
    assert mentions("cost $5 (about)", "$5")


def test_a_sentence_is_seen_where_the_level_shows_it() -> None:
    run = prepared(
        [act(1, "It was built by Ada Holm. " + FILLER), *[act(n, FILLER) for n in range(2, 6)]], summaries=False
    )
    sentences = Sentences(run)
    for budget, seen in ((10_000, True), (30, False)):
        shown = Walk(run, variant("react", budget)).step(5)
        assert sentences.visible(shown, 1, "It was built by  ADA Holm.") is seen
        assert not sentences.visible(shown, 2, "It was built by Ada Holm.")
        assert sentences.visible(shown, 4, "anything in the recent window")


@pytest.mark.parametrize(("policy", "near", "far"), [("last-k", 1.0, 0.0), ("react", 1.0, 1.0)])
def test_planted_recall_of_what_is_known(policy: str, near: float, far: float) -> None:
    """Last-k within a budget of some fifteen pages: all of what is ten steps back, nothing of thirty."""
    questions, pages = collection()
    built = build_session(questions, pages, 60, seed=1, probes=6)
    budget = 1_000_000 if policy == "react" else 15 * 330
    job = PlantedJob(built.recording, ((0, variant(policy, budget)),), built.probes)
    (outcome,) = job.run(tools(), Settings(EncoderConfig()))
    values = {name: [s.value for s in outcome.samples if s.stratum == name] for name in ("10", "30")}
    assert set(values["10"]) == {near}
    assert set(values["30"]) == {far}


def test_collections_are_read_and_checked(tmp_path: Path) -> None:
    questions, pages = collection(2)
    rows = "".join(page.model_dump_json() + "\n" for page in pages.values())
    (tmp_path / "pages.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(UsageFault, match=r"no questions\.jsonl"):
        read_collection(tmp_path)
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(q.model_dump_json() + "\n" for q in questions))
    assert read_collection(tmp_path) == (questions, pages)
    path.write_text(json.dumps({"id": "q", "question": "?", "supporting_pages": ["p"]}) + "\n")
    with pytest.raises(UsageFault, match=r"questions\.jsonl:1: answer: field required"):
        read_collection(tmp_path)
    with pytest.raises(UsageFault, match="pages for 6 visits, not 50"):
        build_session(questions, pages, 50, seed=0)
