"""What may become a summary. A rejected text replaces nothing; the level stays absent."""

from __future__ import annotations

import re

from memory.errors import SummaryRejected
from memory.frame import block
from memory.ports import TokenCounter
from memory.records import Level, StopReason, View
from memory.summaries.base import SummaryJob

_REFUSAL = re.compile(
    r"^\W*(?:(?:i['’]m|i am) (?:(?:really|very) )?(?:sorry|unable|not able)|sorry\b|as an ai\b|unfortunately, i\b|"
    r"i (?:can['’]?t|cannot|won['’]t|will not) |i (?:do not|don['’]t) have (?:access|enough)|"
    r"(?:很)?抱歉|对不起|我(?:无法|不能)|作为(?:一个|一名)?(?:ai|人工智能))",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"^\W*(?:error\b|[\w.]*(?:error|exception): |traceback \(most recent call last\)|internal server error|bad gateway|"
    r"service unavailable|too many requests|rate limit|(?:http|status)[ :/]*[45]\d\d\b|"
    r"[45]\d\d (?:error|client|server)|timed? ?out\b|context.{0,20}(?:exceed|too long)|<!doctype|<html)",
    re.IGNORECASE,
)
_FILLER = re.compile(r"^[\W_]*(?:(?:n/?a|none|null|todo|summary|\.\.\.)[\W_]*)?$", re.IGNORECASE)


def check_stop(reason: StopReason) -> None:
    """Raises SummaryRejected for a reply that was cut by the output limit or refused."""
    if reason == "length":
        raise SummaryRejected("cut by the output limit")
    if reason == "refusal":
        raise SummaryRejected("refused by the model")


def check_text(text: str, source: str) -> None:
    """Raises SummaryRejected for an empty text, a refusal or an error message.

    What reads like one but stands in the source is the source's own: a summary of a failed step may quote its error.
    """
    if _FILLER.match(text):
        raise SummaryRejected("empty")
    for pattern, what in ((_REFUSAL, "a refusal"), (_ERROR, "an error message")):
        found = pattern.match(text)
        if found and found.group().strip(" \"'`*{[").lower() not in source.lower():
            raise SummaryRejected(f"{what}: {text[:80]!r}")


def views(
    job: SummaryJob, detailed: str, brief: str, counter: TokenCounter, *, producer: str, prompt_hash: str
) -> list[View]:
    """The two views of a job, with tokens(BRIEF) <= tokens(DETAILED) <= tokens(FULL), counted as rendered blocks.

    A text equal to the next finer level's stands for that level and carries its count. Raises SummaryRejected for a
    text that fails `check_text`, and for one that is longer than what it summarises.
    """
    made: list[View] = []
    finer, ceiling = job.text.strip(), job.tokens_full
    for level, text in ((Level.DETAILED, detailed.strip()), (Level.BRIEF, brief.strip())):
        if text == finer:
            tokens = ceiling
        else:
            check_text(text, job.text)
            tokens = counter.count(block(job.chunk, level, text))
        if tokens > ceiling:
            raise SummaryRejected(f"{level.name} of c{job.chunk} has {tokens} tokens, what it summarises {ceiling}")
        made.append(View(job.chunk, level, text, tokens, producer=producer, prompt_hash=prompt_hash))
        finer, ceiling = text, tokens
    return made


def settled(job: SummaryJob, detailed: str, brief: str, counter: TokenCounter) -> tuple[str, str]:
    """The texts, each replaced by the next finer one where it would not be shorter as a block."""
    detailed, brief, full = detailed.strip(), brief.strip(), job.text.strip()
    tokens = counter.count(block(job.chunk, Level.DETAILED, detailed))
    if not detailed or tokens >= job.tokens_full:
        detailed, tokens = full, job.tokens_full
    if not brief or counter.count(block(job.chunk, Level.BRIEF, brief)) >= tokens:
        brief = detailed
    return detailed, brief
