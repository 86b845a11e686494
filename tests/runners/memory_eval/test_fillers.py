"""Redundancy: what is put in, where, and what it must not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.memory_eval.fillers import TEMPLATES, inject
from runners.replay.dialogues import Dialogue, read_all
from runners.replay.planted import mentions
from tests.runners.memory_eval.sets import locomo, long_mem


@pytest.fixture
def dialogues(tmp_path: Path) -> list[Dialogue]:
    return [*read_all(long_mem(tmp_path)), *read_all(locomo(tmp_path))]


def texts(given: Dialogue) -> list[str]:
    return [step.thought for step in given.recording.steps]


@pytest.mark.parametrize("redundancy", [1, 2, 4, 8, 20])
def test_the_evidence_stays_what_it_was(dialogues: list[Dialogue], redundancy: int) -> None:
    for given in dialogues:
        made = inject(given, redundancy, seed=0)
        labelled = {number for asked in given.asked for number in asked.evidence}
        assert len(texts(made)) == len(texts(given)) + redundancy * len(labelled)
        assert [step.number for step in made.recording.steps] == list(range(1, len(texts(made)) + 1))
        for before, after in zip(given.asked, made.asked, strict=True):
            told = [
                [texts(one)[number - 1] for number in asked.evidence] for one, asked in ((given, before), (made, after))
            ]
            assert told[0] == told[1]
        # the original is in it, in order, and ends it
        rest = iter(texts(made))
        assert all(text in rest for text in texts(given))
        assert texts(made)[-2:] == texts(given)[-2:]


def test_fillers_speak_of_the_topic_and_state_no_answer(dialogues: list[Dialogue]) -> None:
    for given in dialogues:
        known = set(texts(given))
        fillers = [text for text in texts(inject(given, 8, seed=3)) if text not in known]
        assert len(set(fillers)) == len(fillers)
        answers = [asked.answer for asked in given.asked]
        assert not [(text, answer) for text in fillers for answer in answers if mentions(text, answer)]
    cat = inject(dialogues[0], 4, seed=0)
    fillers = [text for text in texts(cat) if text not in texts(dialogues[0])]
    assert all("name" in text and "sleep" in text for text in fillers)
    assert all(text.startswith("[2023/05/") and "] user: " in text for text in fillers)


def test_a_smaller_redundancy_is_part_of_a_larger_one(dialogues: list[Dialogue]) -> None:
    few, many = (texts(inject(dialogues[0], redundancy, seed=1)) for redundancy in (2, 8))
    rest = iter(many)
    assert all(text in rest for text in few)
    assert texts(inject(dialogues[0], 8, seed=1)) == many
    assert texts(inject(dialogues[0], 8, seed=2)) != many


def test_nothing_is_put_in_where_there_is_no_evidence(dialogues: list[Dialogue]) -> None:
    assert inject(dialogues[0], 0, seed=0) is dialogues[0]
    bare = Dialogue(dialogues[0].recording, ())
    assert inject(bare, 4, seed=0) is bare


def test_every_template_takes_three_topics() -> None:
    assert len(set(TEMPLATES)) == len(TEMPLATES)
    assert all({"{a}", "{b}", "{c}"} <= {text[at : at + 3] for at in range(len(text))} for text in TEMPLATES)
