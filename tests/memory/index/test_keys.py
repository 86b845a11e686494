from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from memory.index.keys import KeyMatrix

DIM = 4


def unit(*rows):
    matrix = np.array(rows, dtype=np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(1, 700), st.lists(st.floats(-5, 5, width=32), min_size=DIM, max_size=DIM), max_size=30),
    st.sets(st.integers(1, 900), max_size=40),
    st.lists(st.floats(-5, 5, width=32), min_size=DIM, max_size=DIM),
)
def test_cosines_are_what_they_are_by_definition(keys, asked, query):
    matrix = KeyMatrix(DIM)
    for number, row in keys.items():
        matrix.add([number], [row])
    numbers = sorted(asked)
    found = matrix.cosines(query, numbers)
    expected = []
    for number in numbers:
        row, q = np.array(keys.get(number, [0.0] * DIM)), np.array(query)
        length = np.linalg.norm(row) * np.linalg.norm(q)
        expected.append(row @ q / length if length else 0.0)
    assert found.dtype == np.float64
    assert_allclose(found, expected, atol=2e-6)
    assert matrix.missing(numbers).tolist() == [number for number in numbers if number not in keys]
    assert len(matrix) == len(keys)


def test_every_way_of_asking_gives_the_same():
    rows = np.random.default_rng(3).standard_normal((1000, 64)).astype(np.float32)
    matrix = KeyMatrix(64)
    matrix.add(range(1, 1001), rows)
    query = rows[5]
    whole = matrix.cosines(query, np.arange(1, 1001))
    assert whole[5] == pytest.approx(1.0, abs=1e-6)
    for numbers in (np.arange(100, 300), np.arange(1, 1001, 3), np.array([1, 2, 1000]), np.array([7])):
        assert_allclose(matrix.cosines(query, numbers), whole[numbers - 1], atol=1e-6)


@pytest.mark.parametrize("bad", [[0, 0, 0, 0], [np.nan, 1, 0, 0], [np.inf, 0, 0, 0]])
def test_rows_that_mean_nothing_score_nothing_and_are_not_missing(bad):
    matrix = KeyMatrix(DIM)
    matrix.add([1, 2, 3], [[1, 0, 0, 0], bad, [0, 1, 0, 0]])
    assert matrix.cosines([1, 0, 0, 0], [1, 2, 3]).tolist() == [1.0, 0.0, 0.0]
    assert matrix.missing([1, 2, 3, 4]).tolist() == [4]
    assert matrix.cosines(bad, [1, 2, 3]).tolist() == [0.0, 0.0, 0.0]


def test_lengths_do_not_matter_and_unit_rows_keep_their_bytes():
    matrix = KeyMatrix(DIM)
    one = unit([3, 4, 5, 6])
    matrix.add([1, 2, 3], np.vstack([one, 1e-20 * one, 1e18 * one]))
    assert_allclose(matrix.cosines([30, 40, 50, 60], [1, 2, 3]), [1, 1, 1], atol=1e-6)
    assert matrix._rows[0].tobytes() == one.tobytes()


def test_a_later_key_replaces_and_growth_keeps():
    matrix = KeyMatrix(DIM)
    for number in range(1, 3001):
        matrix.add([number], unit([number % 7 + 1, 1, 0, 0]))
    matrix.add([1], [[0, 0, 0, 1]])
    assert len(matrix) == 3000
    assert matrix.cosines([0, 0, 0, 1], [1, 2]).tolist() == [1.0, 0.0]
    assert_allclose(matrix.cosines([1, 0, 0, 0], [7]), [1 / np.sqrt(2)], atol=1e-6)


def test_empty():
    matrix = KeyMatrix(DIM)
    assert matrix.cosines([1, 0, 0, 0], []).shape == (0,)
    assert matrix.cosines([1, 0, 0, 0], [1, 5]).tolist() == [0, 0]
    assert matrix.missing([1, 5]).tolist() == [1, 5]
    matrix.add([], np.zeros((0, DIM)))
    assert len(matrix) == 0


def test_misuse_is_an_error():
    matrix = KeyMatrix(DIM)
    for wrong in (
        lambda: KeyMatrix(0),
        lambda: matrix.add([1], [[1, 2]]),
        lambda: matrix.add([1, 2], [[1, 0, 0, 0]]),
        lambda: matrix.add([0], [[1, 0, 0, 0]]),
        lambda: matrix.cosines([1, 0], [1]),
    ):
        with pytest.raises(ValueError):
            wrong()
    matrix.add([1], [[1, 0, 0, 0]])
    with pytest.raises(ValueError):
        matrix.cosines([1, 0, 0, 0], [0, 1])
