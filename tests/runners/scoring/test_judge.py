"""A judge in order, a silent one, a dead one."""

from __future__ import annotations

import pytest

from agent.backbones.scripted import ScriptedBackbone
from agent.errors import AuthFailed, Unavailable
from memory.records import Reply, Usage
from runners.scoring.calibration import calibration_error
from runners.scoring.judge import Judge
from runners.scoring.verdict import yes_no


async def test_a_grade_and_what_it_cost() -> None:
    used: list[Usage] = []

    async def record(usage: Usage) -> None:
        used.append(usage)

    backbone = ScriptedBackbone([Reply("correct: yes\nconfidence: 40%", usage=Usage(input_total=9, output=2))])
    judged = await Judge(backbone, record).grade("…", yes_no)
    assert (judged.grade, judged.score, judged.confidence) == ("correct", 1, 40)
    assert used == [judged.usage]
    assert backbone.calls[0].sampling.temperature == 0


async def test_a_judge_without_a_verdict_is_asked_again_and_then_leaves_it_ungraded() -> None:
    judged = await Judge(ScriptedBackbone(["hm", "correct: no"])).grade("…", yes_no)
    assert judged.grade == "incorrect"
    silent = await Judge(ScriptedBackbone(["hm", "well"])).grade("…", yes_no)
    assert (silent.grade, silent.score) == ("ungraded", 0)


async def test_every_call_of_a_judge_is_paid_for() -> None:
    usage = Usage(input_total=9, output=2, cost=0.5)
    late = await Judge(ScriptedBackbone([Reply("hm", usage=usage), Reply("correct: no", usage=usage)])).grade(
        "…", yes_no
    )
    silent = await Judge(ScriptedBackbone([Reply("hm", usage=usage)] * 2)).grade("…", yes_no)
    died = await Judge(ScriptedBackbone([Reply("hm", usage=usage), Unavailable("gone")])).grade("…", yes_no)
    assert [each.grade for each in (late, silent, died)] == ["incorrect", "ungraded", "ungraded"]
    assert [each.usage.cost for each in (late, silent, died)] == [1.0, 1.0, 0.5]


async def test_a_dead_judge() -> None:
    judged = await Judge(ScriptedBackbone([Unavailable("connection refused")])).grade("…", yes_no)
    assert judged.grade == "ungraded"
    assert "connection refused" in judged.reason


async def test_a_judge_without_a_key_ends_it() -> None:
    with pytest.raises(AuthFailed):
        await Judge(ScriptedBackbone([AuthFailed("no key")])).grade("…", yes_no)


def test_calibration() -> None:
    """Two answers at 90 % of which one is right, one at 10 % that is wrong: (|1 - 1.8| + |0 - 0.1|) / 3."""
    assert calibration_error([90, 90, 10], [True, False, False]) == pytest.approx(0.3)
    assert calibration_error([100], [True]) == 0
    assert calibration_error([None], [True]) == 1
    assert calibration_error([], []) is None
