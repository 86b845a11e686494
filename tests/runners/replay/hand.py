"""Small recordings made by hand, prepared with the hashing encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memory.config import MemoryConfig
from memory.encoders.hashing import HashingEncoder
from memory.ingest import clean_step
from memory.records import JsonValue, Observation, Step, ToolCall
from memory.stored import Question
from memory.summaries.config import SummaryConfig
from memory.tokens import ScriptCounter
from runners.replay.prepare import Prepared, Toolkit, prepare
from runners.replay.recording import Recording
from runners.replay.variants import Scope, Variant

QUESTION = "Which harbour did the Varden survey describe?"


def tools(*, summaries: bool = True) -> Toolkit:
    """No caches: everything is made anew."""
    return Toolkit(HashingEncoder(64), ScriptCounter(), SummaryConfig(kind="extractive" if summaries else "off"))


def act(number: int, seen: str, arguments: Mapping[str, JsonValue] | None = None, thought: str = "") -> Step:
    """A step with one call, and what it brought."""
    call = ToolCall(f"s{number}.0", "search", dict(arguments or {}))
    return clean_step(
        Step(number, thought=thought, calls=(call,), observations=(Observation(call.id, "search", seen),))
    )


def answer(number: int, text: str) -> Step:
    """A final answer."""
    return clean_step(Step(number, "answer", answer=text))


def recording(steps: Sequence[Step], question: str = QUESTION, name: str = "hand") -> Recording:
    """A recording of one question."""
    return Recording(name, "hand", tuple(steps), (Question(1, question, 1, 0.0),))


def prepared(steps: Sequence[Step], question: str = QUESTION, recent: int = 2, *, summaries: bool = True) -> Prepared:
    """A recording, ready to be walked; without summaries a chunk is FULL or its one line."""
    return prepare(recording(steps, question), tools(summaries=summaries), recent)


def variant(
    policy: str,
    budget: int,
    *,
    scope: Scope = "history",
    options: Mapping[str, JsonValue] | None = None,
    **memory: object,
) -> Variant:
    """A variant with nothing spent beyond the plan, unless asked for."""
    config = MemoryConfig.model_validate({"spend": False, **memory})
    return Variant(policy, policy, dict(options or {}), budget, config, scope=scope)


FILLER = "The old bridges were counted and nothing else was found there. " * 12
