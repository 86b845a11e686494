"""What may not become a summary."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from memory.errors import SummaryRejected
from memory.frame import block
from memory.records import Level, View
from memory.summaries import checks
from memory.summaries.base import SummaryJob
from memory.summaries.config import SummaryConfig
from memory.tokens import ScriptCounter

COUNTER = ScriptCounter()


def job(text: str) -> SummaryJob:
    return SummaryJob(7, text, "q", COUNTER.count(block(7, Level.FULL, text)))


def views(text: str, detailed: str, brief: str) -> list[View]:
    return checks.views(job(text), detailed, brief, COUNTER, producer="p", prompt_hash="h")


LONG = "The bridge was opened in 1987. " * 20


def test_good_views_count_their_blocks() -> None:
    detailed, brief = views(LONG, "The bridge was opened in 1987 by the king.", "Opened 1987.")
    assert detailed.tokens == COUNTER.count(block(7, Level.DETAILED, detailed.text))
    assert (detailed.chunk, detailed.level, detailed.producer, detailed.prompt_hash) == (7, Level.DETAILED, "p", "h")
    assert brief.level is Level.BRIEF
    assert brief.tokens <= detailed.tokens <= job(LONG).tokens_full


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " \n",
        "...",
        "N/A",
        "I'm sorry, but I can't help with that.",
        "I cannot summarise this.",
        "As an AI language model, I",
        "抱歉，我无法处理。",
        "Error: rate limit exceeded",
        "Traceback (most recent call last):\n  File",
        "HTTP 503 Service Unavailable",
        "openai.RateLimitError: slow down",
        "<html><body>Bad gateway",
        LONG + LONG,
    ],
)
@pytest.mark.parametrize("level", ["detailed", "brief"])
def test_bad_texts_are_rejected(bad: str, level: str) -> None:
    good = "The bridge was opened in 1987 by the king."
    with pytest.raises(SummaryRejected):
        views(LONG, bad if level == "detailed" else good, bad if level == "brief" else good)


def test_what_the_source_itself_says_is_no_error() -> None:
    source = "observation (http_status): HTTP 503 Service Unavailable\n" + LONG
    assert len(views(source, "HTTP 503 Service Unavailable; the bridge was opened in 1987.", "HTTP 503.")) == 2


def test_the_brief_may_not_be_longer_than_the_detailed() -> None:
    with pytest.raises(SummaryRejected, match="BRIEF"):
        views(LONG, "Opened in 1987.", "The bridge was opened in 1987 by somebody.")


def test_a_level_equal_to_the_next_finer_one_stands_for_it() -> None:
    detailed, brief = views("Opened in 1987.", "Opened in 1987.", "Opened in 1987.")
    assert detailed.tokens == brief.tokens == job("Opened in 1987.").tokens_full


def test_settled_falls_back_to_the_finer_level() -> None:
    assert checks.settled(job("Opened in 1987."), "Opened in  1987!", "", COUNTER) == ("Opened in 1987.",) * 2
    assert checks.settled(job(LONG), "Opened in 1987 or so.", "Opened.", COUNTER) == (
        "Opened in 1987 or so.",
        "Opened.",
    )


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_cut_and_refused_replies(reason: str) -> None:
    with pytest.raises(SummaryRejected):
        checks.check_stop(reason)  # type: ignore[arg-type]
    checks.check_stop("end")


@pytest.mark.parametrize("values", [{"kind": "magic"}, {"timeout": 3}, {"brief_tokens": 300}, {"attempts": 0}])
def test_bad_settings(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SummaryConfig.model_validate(values)
