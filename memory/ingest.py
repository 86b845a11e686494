"""Writing a step: cleaned once, committed in one transaction, then queued for its key and its summaries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from memory.records import Chunk, JsonValue, Observation, Step, ToolCall
from memory.sanitize import sanitize
from memory.stored import ChunkFacts


def clean_step(step: Step) -> Step:
    """The step with every text storable; what the model wrote passes the same boundary as what tools returned."""
    calls = tuple(ToolCall(call.id, sanitize(call.name), clean_arguments(call.arguments)) for call in step.calls)
    observations = tuple(_clean_observation(item) for item in step.observations)
    return replace(
        step,
        thought=sanitize(step.thought),
        answer=sanitize(step.answer),
        question=sanitize(step.question),
        calls=calls,
        observations=observations,
    )


def clean_arguments(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Arguments with every text in them, keys included, storable; numbers that JSON does not have become texts."""
    return {sanitize(key): _clean_value(value) for key, value in arguments.items()}


def _clean_value(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, list):
        return [_clean_value(item) for item in value]
    if isinstance(value, dict):
        return clean_arguments(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _clean_observation(item: Observation) -> Observation:
    sources = tuple(replace(source, url=sanitize(source.url), title=sanitize(source.title)) for source in item.sources)
    return replace(item, text=sanitize(item.text), sources=sources)


def facts_of(chunk: Chunk) -> ChunkFacts:
    """The facts of a chunk as a store gives them back."""
    source = chunk.step.source
    return ChunkFacts(
        number=chunk.step.number,
        kind=chunk.step.kind,
        tools=tuple(call.name for call in chunk.step.calls),
        placeholder=chunk.placeholder,
        tokens_full=chunk.tokens_full,
        tokens_placeholder=chunk.tokens_placeholder,
        content_hash=chunk.content_hash,
        source_url=source.url if source else "",
        source_title=source.title if source else "",
    )
