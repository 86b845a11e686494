"""A glimpse in a recording, written out as a session would for the one context that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.frame import HEADER
from memory.ports import TokenCounter
from memory.recall import CHARS_PER_TOKEN, pages, ref_name
from memory.records import ChunkRef, Step
from memory.text.passages import best_passages


def written_out(step: Step, texts: Sequence[str], page_tokens: int, counter: TokenCounter) -> Step:
    """The step with the pages or passages that its glimpses refer to; references that point nowhere add nothing."""
    if not any(item.refs for item in step.observations):
        return step
    observations = []
    for item in step.observations:
        shown = [
            f"{HEADER}{ref_name(ref)}\n{_expanded(ref, texts[ref.chunk - 1], page_tokens, counter)}"
            for ref in item.refs
            if 1 <= ref.chunk <= len(texts) and not ref.last
        ]
        observations.append(replace(item, text="\n".join([item.text, *shown])))
    return replace(step, observations=tuple(observations))


def _expanded(ref: ChunkRef, text: str, page_tokens: int, counter: TokenCounter) -> str:
    if ref.query:
        limit = page_tokens * CHARS_PER_TOKEN
        return "\n…\n".join(best_passages(ref.query, text, limit_chars=limit)) or text[:limit]
    parts = pages(text, page_tokens, counter)
    return parts[min(max(ref.part, 1), len(parts)) - 1]
