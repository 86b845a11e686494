"""Strict next-step recall against cases small enough to be checked by eye."""

from __future__ import annotations

import pytest

from runners.replay.engine import Walk
from runners.replay.recall import MEASURE, StrictRecall
from runners.replay.strings import is_marked, tokens, values
from runners.replay.targets import distance_strata, strata, targets_of
from tests.runners.replay.hand import FILLER, act, answer, prepared, variant

CASE = [
    act(1, f"Booking HAT078 was made by Sofia. {FILLER}"),
    act(2, FILLER),
    act(3, FILLER),
    act(4, "ok", {"flight": "HAT078"}),
]


def test_tokens_are_whole_and_as_written() -> None:
    found = tokens(
        "see https://a.org/x?y=1, on 2024-05-15 (#W237) o'brien paid 1,200 at 12:30: user_id=sofia_kim_72 中文AB12文"
    )
    assert {"https://a.org/x?y=1", "2024-05-15", "W237", "o'brien", "1,200", "12:30", "sofia_kim_72", "AB12"} <= found
    assert "HAT07" not in tokens("HAT078")
    assert "中文" not in found


@pytest.mark.parametrize(
    ("token", "marked"),
    [("HAT078", True), ("https://a.org", True), ("Sofia", True), ("Bridge", False), ("harbour", False), ("12", False)],
)
def test_which_strings_count(token: str, marked: bool) -> None:
    assert is_marked(token, {"bridge", "harbour"}) is marked


def test_values_of_arguments_without_their_keys() -> None:
    assert list(values({"Key1": ["A1", {"Key2": "B2"}], "n": 42, "flag": True, "none": None})) == ["A1", "B2", "42"]


def test_a_string_first_seen_in_an_old_observation_is_a_target() -> None:
    found = targets_of(prepared(CASE))
    assert [(t.step, t.text, t.source, t.distance, t.final) for t in found[4]] == [(4, "HAT078", 1, 3, False)]
    assert found[4][0].kept[3]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({2: act(2, FILLER, {"q": "HAT078"})}, id="an earlier action used it"),
        pytest.param({3: act(3, f"{FILLER} HAT078 again")}, id="the recent window shows it"),
        pytest.param({3: act(3, FILLER, thought="it was HAT078")}, id="a thought of the recent window shows it"),
        pytest.param({1: act(1, FILLER)}, id="no observation had it"),
        pytest.param({1: act(1, "HAT078", thought="look for HAT078")}, id="a thought had it first"),
    ],
)
def test_what_is_no_target(changed: dict[int, object]) -> None:
    steps = [changed.get(step.number, step) for step in CASE]
    assert not targets_of(prepared(steps)).get(4)  # type: ignore[arg-type]


def test_what_the_question_names_is_no_target() -> None:
    assert targets_of(prepared(CASE))
    assert not targets_of(prepared(CASE, "What became of HAT078?"))


def test_part_of_a_token_is_no_use_of_it() -> None:
    steps = [*CASE[:3], act(4, "ok", {"flight": "HAT0789"})]
    assert not targets_of(prepared(steps))


def test_final_answers_are_a_stratum_of_their_own() -> None:
    found = targets_of(prepared([*CASE[:3], answer(4, "It was HAT078.")]))
    assert set(strata(found[4])) == {"final"}
    assert set(strata(targets_of(prepared(CASE))[4])) == {"all", "3-5"}


@pytest.mark.parametrize(
    ("distance", "names"),
    [(2, ("<3",)), (3, ("3-5",)), (5, ("3-5",)), (6, ("6-10",)), (10, ("6-10",)), (11, (">10",)), (31, (">10", ">30"))],
)
def test_distance_strata(distance: int, names: tuple[str, ...]) -> None:
    assert distance_strata(distance) == names


@pytest.mark.parametrize(("policy", "budget", "recall"), [("react", 10_000, 1.0), ("react", 30, 0.0)])
def test_recall_is_what_the_levels_show(policy: str, budget: int, recall: float) -> None:
    run = prepared(CASE)
    seen = StrictRecall(run, targets_of(run))
    for shown in Walk(run, variant(policy, budget)).steps():
        seen.see(shown)
    assert {(s.measure, s.stratum, s.value) for s in seen.samples()} == {
        (MEASURE, "all", recall),
        (MEASURE, "3-5", recall),
    }


def test_mean_per_context_before_mean_per_run() -> None:
    """One context with two targets of which one is shown, one with one that is shown: (1/2 + 1) / 2, not 2/3."""
    steps = [
        act(1, f"AA11 {FILLER}"),
        act(2, "BB22 is here"),
        act(3, FILLER),
        act(4, FILLER),
        act(5, FILLER, {"q": "AA11 BB22"}),
        act(6, "CC33 is here"),
        act(7, FILLER),
        act(8, FILLER),
        act(9, FILLER, {"q": "CC33"}),
    ]
    run = prepared(steps, summaries=False)
    seen = StrictRecall(run, targets_of(run))
    for shown in Walk(run, variant("react", 150)).steps():
        seen.see(shown)
    values_ = {sample.stratum: sample.value for sample in seen.samples()}
    contexts = {
        step: sum(t.text in ("BB22", "CC33") for t in found) / len(found) for step, found in targets_of(run).items()
    }
    assert contexts == {5: 0.5, 9: 1.0}
    assert values_["all"] == pytest.approx(0.75)
