"""The records that flow through longstride: frozen, typed, free of behaviour that needs I/O.

Terms (see ``docs/terms.md``): a *step* is one model reply with its actions and their observations; a *chunk* is the
stored record of a step (one to one, so ``c7`` is step 7); a *level* is one of the four resolutions of a chunk; a *view*
is the text of a chunk at one level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias, TypeVar

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
StepKind: TypeAlias = Literal["act", "answer", "turn", "note"]
"""``act``: tool calls and observations. ``answer``: a final answer. ``turn``: a dialogue turn of a host agent.
``note``: something the session itself says (an interrupted step, a lost python state, a failed parse)."""
StopReason: TypeAlias = Literal["end", "tool_calls", "length", "refusal"]
ErrorKind: TypeAlias = Literal[
    "invalid_arguments",
    "unknown_tool",
    "not_run",
    "timeout",
    "not_found",
    "forbidden",
    "too_large",
    "unsupported",
    "network",
    "http_status",
    "parse",
    "execution",
    "limit",
    "interrupted",
]
"""The closed set of failures that a model is shown as an observation and can mend."""


class Level(IntEnum):
    """Resolution of a chunk in a context, coarse to fine (PACE, multi-granularity representation)."""

    PLACEHOLDER = 0
    BRIEF = 1
    DETAILED = 2
    FULL = 3


SUMMARY_LEVELS: tuple[Level, ...] = (Level.BRIEF, Level.DETAILED)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One action. ``id`` is ours (``s{step}.{i}``), never the provider's."""

    id: str
    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """Where an observation came from."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """A glimpse: a reference to a stored chunk that is expanded when the next context is rendered, never copied.

    ``part`` is 1-based among the pages of a huge chunk; ``query`` narrows to the best passages. ``last`` > 0 makes it
    a reference to the range ``c{chunk}``-``c{last}``, which lists its members.
    """

    chunk: int
    part: int = 1
    query: str = ""
    last: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool gave back. ``error`` is None on success."""

    call_id: str
    tool: str
    text: str
    error: ErrorKind | None = None
    sources: tuple[Source, ...] = ()
    refs: tuple[ChunkRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one call, normalised over providers. ``None`` means unknown, never 0.

    ``input_total`` includes cached tokens (Anthropic's own figure excludes them); ``cost`` is in US dollars.
    """

    input_total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One whole step. ``number`` counts from 1 within a session; ``task`` is the ordinal of the question in force."""

    number: int
    kind: StepKind = "act"
    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    answer: str = ""
    question: str = ""
    """On an ``answer`` step only: the question it answers, so that the chunk speaks for itself later."""
    task: int = 1
    created: float = 0.0
    """Unix time, seconds; for people. Order comes from ``number`` alone."""
    interrupted: bool = False

    @property
    def chunk_id(self) -> str:
        return f"c{self.number}"

    @property
    def source(self) -> Source | None:
        """The first source of the step, if any."""
        for observation in self.observations:
            if observation.sources:
                return observation.sources[0]
        return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored step with the facts derived from it once, when it is written.

    ``tokens_full`` and ``tokens_placeholder`` count the *rendered block* (header included), so that sums of them bound
    the rendered history (the counter is subadditive).
    """

    step: Step
    placeholder: str
    """Body of the one-line view, at most about 25 tokens, deterministic (no id: the header carries it)."""
    tokens_full: int
    tokens_placeholder: int
    content_hash: str
    """SHA-256 (hex) of the FULL text."""
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A summary of a chunk. Versioned; ``published_step`` is the step whose context could first show it."""

    chunk: int
    level: Level
    text: str
    tokens: int
    version: int = 1
    producer: str = ""
    prompt_hash: str = ""
    published_step: int | None = None
    fidelity: float | None = None
    """How much of the chunk the view preserves, in [0, 1]; None when it was not measured."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. ``parameters`` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request. ``cache_point`` marks the end of a prefix that later requests repeat byte for byte."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    cache_point: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """A picture that belongs to the question. ``media_type``: image/png, image/jpeg, image/gif or image/webp."""

    media_type: str
    data: bytes
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; ``None`` leaves the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. ``schema`` (a JSON schema) constrains the reply where the backbone can; ``task_key`` keeps a
    task on one server of several, so that its prefix cache stays warm. ``images`` go with the first user message of a
    backbone that takes pictures; others leave them out."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, JsonValue] | None = None
    max_output_tokens: int = 4096
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    task_key: str = ""
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole model reply: a stream that broke never becomes one."""

    text: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: StopReason = "end"
    usage: Usage = Usage()


def add_usage(a: Usage, b: Usage) -> Usage:
    """Sum of two usages; a figure unknown in both stays unknown, unknown in one counts as nothing there."""
    return Usage(
        input_total=_plus(a.input_total, b.input_total),
        cache_read=_plus(a.cache_read, b.cache_read),
        cache_write=_plus(a.cache_write, b.cache_write),
        output=_plus(a.output, b.output),
        reasoning=_plus(a.reasoning, b.reasoning),
        cost=_plus(a.cost, b.cost),
    )


N = TypeVar("N", int, float)


def _plus(x: N | None, y: N | None) -> N | None:
    if x is None or y is None:
        return y if x is None else x
    return x + y
