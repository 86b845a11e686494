"""The learned scorer: features by hand, regimes, what the running task owns, files that were edited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.plan import Pool
from memory.scoring import learned
from memory.scoring.learned import FEATURES, Coefficients, Gate, features, learned_values
from tests.memory.pools import pool, pools
from tests.memory.scoring.scorers import RICH, SAID, model, scorer

SCORER = scorer(step=RICH, lookup=SAID, turn=SAID)


def test_features_by_hand() -> None:
    rows = features(np.array([0.1, 0.3, 0.3]), np.array([0.0, 0.0, 4.0]), np.array([100.0, 200.0, 400.0]))
    by_name = dict(zip(FEATURES, rows.T, strict=True))
    assert by_name["cosine"] == pytest.approx([-np.sqrt(2), np.sqrt(0.5), np.sqrt(0.5)])
    assert by_name["cosine_x_lexical"] == pytest.approx(by_name["cosine"] * by_name["lexical"])
    assert np.exp(by_name["cosine_rank"]) == pytest.approx([3, 1, 1])
    assert np.exp(by_name["lexical_rank"]) == pytest.approx([2, 2, 1])
    assert np.exp(by_name["age"]) == pytest.approx([3, 2, 1])
    assert np.exp(by_name["tokens"]) == pytest.approx([100, 200, 400])
    assert np.exp(by_name["pool"]) == pytest.approx([3, 3, 3])


def test_ages_and_pools_beyond_what_was_fitted_count_as_its_end() -> None:
    rows = features(np.zeros(5000), np.zeros(5000), np.ones(5000))
    assert np.exp(rows[:, FEATURES.index("age")]).max() == pytest.approx(128)
    assert np.exp(rows[0, FEATURES.index("pool")]) == pytest.approx(128)


def test_a_lookup_is_a_context_whose_best_chunk_stands_out() -> None:
    gate = Gate(midpoint=3.0, slope=4.0)
    flat, one = np.array([0.2, 0.3, 0.25, 0.3] * 10), np.array([0.2, 0.3] * 20 + [0.9])
    assert gate.share(flat) < 0.01 < 0.99 < gate.share(one)
    assert gate.share(np.full(9, 0.5)) == gate.share(np.zeros(0)) == 0.0


def test_a_lookup_goes_by_what_is_said_a_task_by_what_is_rich() -> None:
    tall = np.full((40, 4), 100)
    tall[5] = 1600
    calm, asked = np.tile([0.3, 0.32], 20), np.tile([0.3, 0.32], 20)
    asked[20] = 0.95
    base = pool(calm)
    quiet = learned_values(replace(base, tokens=tall), SCORER)
    loud = learned_values(replace(base, tokens=tall, cosines=asked), SCORER)
    assert quiet.argmax() == 5
    assert loud.argmax() == 20


def test_the_running_task_takes_from_its_own_steps() -> None:
    """Rows 0-9 are of an earlier task and all alike: they keep the share of lookups, and no more."""
    given = pool([0.3, 0.31] * 10)
    values = learned_values(given, SCORER, own=10)
    assert values[10:].sum() > 0.9 * values.sum() > 0
    assert (values[:10] > 0).all()


def test_a_new_question_owns_nothing_and_looks_everything_up() -> None:
    given = pool([0.2, 0.9, 0.3])
    values = learned_values(given, SCORER, own=3)
    assert values.argmax() == 1
    assert values == pytest.approx(learned_values(replace(given, kinds=("turn",) * 3), SCORER))


def test_turns_have_their_own_model() -> None:
    mixed = scorer(step=model(-9.0), lookup=model(-9.0), turn=model(2.0))
    values = learned_values(replace(pool([0.3] * 4), kinds=("act", "turn", "act", "note")), mixed)
    assert values.argmax() == 1 and values[1] > 100 * values[0]


@given(pools(), st.integers(0, 60), st.booleans())
def test_finite_not_negative_mean_one(given_: Pool, own: int, lexical: bool) -> None:
    words = np.arange(len(given_), dtype=np.float64) if lexical else None
    values = learned_values(replace(given_, lexical=words), SCORER, own=min(own, len(given_)))
    assert np.isfinite(values).all() and (values >= 0).all()
    if len(values):
        assert values.mean() == pytest.approx(1.0)


def test_ranks_of_a_large_pool_are_exact_at_the_top_and_close_below() -> None:
    rng = np.random.default_rng(3)
    scores = np.where(rng.random(60_000) < 0.3, rng.random(60_000) ** 3, 0.0)
    exact = np.searchsorted(np.sort(-scores), -scores, side="left") + 1.0
    found = np.exp(learned._log_rank(scores))
    top = exact <= 4096
    assert found[top] == pytest.approx(exact[top])
    assert np.abs(np.log(found[~top] / exact[~top])).max() < 0.1
    worst = np.exp(learned._log_rank(np.concatenate((scores, [np.nan, np.nan]))))
    assert worst[-1] == worst.max()


def test_a_file_edited_by_hand_is_refused() -> None:
    tree = SCORER.model_dump()
    assert Coefficients.model_validate(tree) == SCORER
    tree["step"]["weights"]["age"] = 0.5
    with pytest.raises(ValidationError, match="the hash of the coefficients is"):
        Coefficients.model_validate(tree)


@pytest.mark.parametrize("weights", [{"age": 1.0}, dict.fromkeys(FEATURES, float("nan"))])
def test_weights_must_be_complete_and_finite(weights: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        learned.KindCoefficients(intercept=0.0, weights=weights)
