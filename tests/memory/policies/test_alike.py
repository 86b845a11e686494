"""Cosines that are remembered are those that would be computed."""

from __future__ import annotations

import numpy as np
import pytest

from memory.policies.alike import Alike


def test_remembered_or_not_to_the_bit() -> None:
    """Shortlists that come and go, a key that is late, and one that is not finite."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((600, 256)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1)[:, None]
    late = keys[77].copy()
    keys[77], keys[78] = 0, np.nan
    alike = Alike()
    for turn in range(40):
        if turn == 20:
            keys[77] = late
        rows = np.union1d(rng.choice(600, int(rng.integers(0, 200)), replace=False), [77, 78] if turn % 3 else [])
        rows = rows.astype(np.int64)
        found = alike.cosines(keys, rows).matrix
        assert (found == Alike().cosines(keys, rows).matrix).all() and (found == found.T).all()
        exact = np.nan_to_num(keys[rows])
        assert np.allclose(found, exact @ exact.T, atol=1e-3)


def test_other_keys_are_noticed() -> None:
    alike, rows = Alike(), np.arange(3)
    assert (alike.cosines(np.eye(3, dtype=np.float32), rows).matrix == np.eye(3)).all()
    assert (alike.cosines(np.eye(3, dtype=np.float32)[[0, 0, 2]], rows).matrix[0, 1]) == 1


def test_without_keys() -> None:
    with pytest.raises(ValueError, match="keys"):
        Alike().cosines(None, np.arange(2))
