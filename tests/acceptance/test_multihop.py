"""Fifty multi-hop questions over their pages, with nothing but the embedded backbone."""

from __future__ import annotations

import collections
from pathlib import Path
from statistics import fmean
from typing import get_args

import pytest

from agent.errors import Status
from runners.bench.tasks import Task
from runners.scoring import text
from tests.acceptance import multihop


@pytest.mark.timeout(600)
async def test_fifty_questions_beat_one_query(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every question ends with a named status and none crashes; exact match, F1 and the recall of supporting pages
    among the pages visited are ahead of one BM25 query, cut at the same number of pages for each question and read by
    the same extractive reader."""
    settings = multihop.config()
    statuses: collections.Counter[str] = collections.Counter()
    ours: list[tuple[float, float, float]] = []
    theirs: list[tuple[float, float, float]] = []
    pages: list[int] = []
    async with multihop.OneQuery.open(tmp_path, data_dir) as baseline:
        for asked in multihop.chosen(data_dir):
            async with multihop.session(tmp_path / "runs" / asked.id, tmp_path, data_dir, settings) as opened:
                outcome = await opened.session.ask(asked.question)
                steps = [chunk.step for chunk in await opened.store.chunks(range(1, outcome.steps + 1))]
            statuses[outcome.status] += 1
            read = multihop.visited(steps)
            pages.append(len(read))
            ours.append(figures(asked, outcome.answer, read))
            theirs.append(figures(asked, *await baseline.ask(asked.question, len(read))))
    run = [fmean(column) for column in zip(*ours, strict=True)]
    one_query = [fmean(column) for column in zip(*theirs, strict=True)]
    with capsys.disabled():
        print(f"\n{len(pages)} questions, {fmean(pages):.2f} pages each, {dict(statuses)}")  # noqa: T201
        for name, (em, f1, recall) in (("run", run), ("one query", one_query)):
            print(f"  {name:10} EM {em:.3f}  F1 {f1:.3f}  supporting-page recall {recall:.3f}")  # noqa: T201
    assert len(pages) == 50
    assert set(statuses) <= set(get_args(Status)) - {"crashed"}
    assert all(mine > its for mine, its in zip(run, one_query, strict=True))


def figures(asked: Task, answer: str, read: set[str]) -> tuple[float, float, float]:
    """Exact match, F1, share of the supporting pages that were read."""
    phrase = text.short(answer)
    recall = len(read & asked.supporting) / len(asked.supporting)
    return text.exact(phrase, asked.golds), text.f1(phrase, asked.golds), recall
