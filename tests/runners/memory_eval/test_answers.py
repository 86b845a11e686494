"""Scores without a model, by cases. LoCoMo's values are those of its official script."""

from __future__ import annotations

import pytest

from runners.memory_eval.answers import abstains, golds, locomo_score, matches, overlap, stems
from runners.replay.dialogues import Asking


def asking(kind: str, answer: str, *, answerable: bool = True) -> Asking:
    return Asking("q", kind, "?", answer, (1,), answerable=answerable)


@pytest.fixture
def _stemmer() -> None:
    pytest.importorskip("snowballstemmer")


@pytest.mark.usefixtures("_stemmer")
@pytest.mark.parametrize(
    ("category", "gold", "answer", "score"),
    [
        # one form of a word is as good as another, articles and "and" aside
        (4, "the running shoes and a ball", "Runs, shoe; balls.", 1.0),
        (4, "mental health", "physical health", 0.5),
        (4, "a quick brown fox", "fox", 2 * 1 * (1 / 3) / (4 / 3)),
        (4, "yes", "no", 0.0),
        (4, "", "", 0.0),
        # commas vanish before words are told apart: 1,000 is one word
        (2, "1,000 days", "1000 day", 1.0),
        (2, "2022", "2022.", 1.0),
        # a repeated word counts as often as the gold has it
        (2, "May 2023", "May May 2023", 2 * (2 / 3) * 1 / (5 / 3)),
        # multi-hop: the best part of the answer for each part of the gold, averaged
        (1, "tent, stove", "a stove, the tents", 1.0),
        (1, "tent, stove", "tent", 0.5),
        (1, "tent, stove, rope", "rope and tent", (2 / 3 + 0 + 2 / 3) / 3),
        # the other categories do not take parts
        (4, "tent, stove", "stove, tent", 1.0),
        # open-domain: what stands behind the semicolon only explains
        (3, "Likely no; though she likes reading", "likely no", 1.0),
        (2, "Likely no; though", "likely no", 2 * 1 * (2 / 3) / (5 / 3)),
    ],
)
def test_locomo_by_its_official_rules(category: int, gold: str, answer: str, score: float) -> None:
    assert locomo_score(answer, asking(f"category-{category}", gold)) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("No information available.", 1.0),
        ("It is NOT MENTIONED in the conversation", 1.0),
        # the official scorer knows two phrases and no other
        ("I do not know", 0.0),
        ("self-care is important", 0.0),
        ("", 0.0),
    ],
)
def test_locomo_adversarial_questions_need_no_gold(answer: str, score: float) -> None:
    """444 of 446 have no ``answer``, which upstream reads all the same."""
    assert locomo_score(answer, asking("category-5", "self-care is important", answerable=False)) == score


@pytest.mark.usefixtures("_stemmer")
def test_stems_are_porters() -> None:
    words = "caresses ponies ties cats agreed plastered motoring conflated hopping falling filing happy relational"
    expected = "caress poni ti cat agre plaster motor conflat hop fall file happi relat"
    assert stems(words) == expected.split()
    assert stems("is as I am") == ["is", "as", "i", "am"]


@pytest.mark.parametrize(
    ("gold", "answer", "found"),
    [
        ("Paris", "You went to Paris.", 1.0),
        ("Paris", "Parisian cafes", 0.0),
        ("the suburbs", "in suburbs", 1.0),
        ("25 minutes and 50 seconds (or 25:50)", "25:50", 1.0),
        ("25 minutes and 50 seconds (or 25:50)", "It took 25 minutes and 50 seconds", 1.0),
        ("25 minutes and 50 seconds (or 25:50)", "25 minutes", 0.0),
        ("Yes. (You have a road bike too.)", "yes", 1.0),
        ("43", "143", 0.0),
        ("Paris", "", 0.0),
    ],
)
def test_a_gold_stands_in_the_answer(gold: str, answer: str, found: float) -> None:
    assert matches(answer, asking("multi-session", gold)) == found


def test_a_rubric_is_for_a_judge() -> None:
    asked = asking("single-session-preference", "The user would prefer westerns.")
    assert matches("The user would prefer westerns.", asked) is None
    assert overlap("The user would prefer westerns.", asked) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("No information available", True),
        ("The conversation does not mention a parrot.", True),
        ("You didn’t specify that.", True),
        ("The information provided isn't enough.", True),
        ("I cannot determine that", True),
        ("I don't know.", True),
        ("A parrot isn't mentioned anywhere.", True),
        ("You haven't told me its name.", True),
        ("The year was not given.", True),
        ("It was mentioned on Monday.", False),
        ("She has told me nothing but this: Knot.", False),
        ("Biscuit", False),
        ("You mentioned a parrot called Knot.", False),
        ("The note was not long.", False),
        ("", False),
    ],
)
def test_abstention(answer: str, said: bool) -> None:
    assert abstains(answer) is said
    assert matches(answer, asking("single-session-preference", "x", answerable=False)) == float(said)


def test_overlap_takes_the_best_form() -> None:
    asked = asking("knowledge-update", "five trips (or 5)")
    assert list(golds(asked.answer)) == ["five trips (or 5)", "five trips", "5"]
    assert overlap("5", asked) == overlap("five trips", asked) == 1.0
    assert overlap("five", asked) == pytest.approx(2 / 3)
