"""What was recorded is used while it is fresh, whatever the clock has been set to meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.recordings import Recordings

YEAR = 31_536_000.0


@pytest.mark.parametrize(("later", "there"), [(0.0, True), (59.0, True), (61.0, False), (-30.0, True), (-YEAR, False)])
def test_a_clock_that_went_back_makes_nothing_fresh_for_a_year(tmp_path: Path, later: float, there: bool) -> None:
    records = Recordings(tmp_path / "r.sqlite")
    records.put("k", "body", 2 * YEAR)
    assert (records.get("k", 2 * YEAR + later, 60.0) is not None) is there
    assert records.get("k", 2 * YEAR + later) is not None
    records.close()
