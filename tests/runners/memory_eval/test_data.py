"""The real sets: read whole, and what must hold on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runners.memory_eval.fillers import inject
from runners.replay.dialogues import ABSTENTION, read_all
from runners.replay.planted import mentions
from tests.runners.command import Command

OFF = ("-c", "summaries.kind=off", "--workers", "1", "--reader", "none")


def values(report: dict[str, Any], measure: str) -> dict[tuple[str, str, int], float]:
    return {
        (row["selector"], row["budget"], row["redundancy"]): row[measure]["value"]
        for row in report["rows"]
        if row["stratum"] == "all"
    }


def test_long_mem_eval_is_read_whole(data_dir: Path) -> None:
    given = list(read_all(data_dir / "longmemeval"))
    asked = [item for one in given for item in one.asked]
    assert len(asked) == 49
    assert {item.kind for item in asked} >= {"temporal-reasoning", "single-session-preference"}
    assert [item.answerable for item in asked].count(False) == sum(ABSTENTION in item.name for item in asked) == 2
    assert all(item.evidence for item in asked if item.answerable)
    stated = []
    for one in given[:12]:
        known = {step.thought for step in one.recording.steps}
        fillers = [step.thought for step in inject(one, 8, 0).recording.steps if step.thought not in known]
        stated += [text for text in fillers if mentions(text, one.asked[0].answer)]
    assert not stated


def test_fillers_cost_a_selector_by_age_more_than_one_by_relevance(command: Command, data_dir: Path) -> None:
    grid = ("--selectors", "last-k,top-k", "--budget-tokens", "4000", "--redundancy", "0,4", "--limit", "6")
    ended = command("memory-eval", "longmemeval", "--data", str(data_dir / "longmemeval"), *grid, *OFF)
    assert (ended.code, ended.err) == (0, "")
    recall = values(ended.report, "recall_share")
    assert recall["top-k", "4000", 0] >= 0.75
    assert recall["last-k", "4000", 0] <= 0.2
    assert values(ended.report, "ndcg")["top-k", "4000", 4] < values(ended.report, "ndcg")["top-k", "4000", 0]


def test_every_question_of_locomo(command: Command, data_dir: Path) -> None:
    pytest.importorskip("snowballstemmer")
    grid = ("--selectors", "top-k", "--budget-tokens", "1000,4000")
    ended = command("memory-eval", "locomo", "--data", str(data_dir / "locomo"), *grid, *OFF)
    assert (ended.code, ended.err) == (0, "")
    assert (ended.report["questions"], ended.report["unresolved"]) == (999, 2)
    whole = [row for row in ended.report["rows"] if row["stratum"] == "all"]
    # two have no evidence at all
    assert [row["recall_share"]["n"] for row in whole] == [997, 997]
    recall = values(ended.report, "recall_share")
    assert recall["top-k", "1000", 0] >= 0.4
    assert recall["top-k", "4000", 0] >= 0.6
