"""Names of dialects and what makes them; each module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agent.dialects.base import Dialect
from agent.dialects.frame import Framed
from memory.records import Sampling

F = TypeVar("F", bound=Framed)


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """What a dialect is made with; ``None`` leaves the dialect's own default.

    ``today``: ISO date written into the system prompt; empty writes none. It must stay the same within a session,
    which recomputes its contexts byte for byte. ``task_key`` goes into every `Request`.
    """

    max_output_tokens: int | None = None
    sampling: Sampling | None = None
    today: str = ""
    task_key: str = ""


def dialect_names() -> tuple[str, ...]:
    return tuple(sorted(_MAKERS))


def make_dialect(name: str, options: DialectOptions | None = None) -> Dialect:
    """A fresh dialect: one per session. Raises KeyError, with the known names, for an unknown one."""
    if name not in _MAKERS:
        raise KeyError(f"unknown dialect {name!r}; known: {', '.join(dialect_names())}")
    return _MAKERS[name](options or DialectOptions())


def _framed(made: type[F], options: DialectOptions) -> F:
    return made(
        max_output_tokens=options.max_output_tokens,
        sampling=options.sampling,
        today=options.today,
        task_key=options.task_key,
    )


def _native(options: DialectOptions) -> Dialect:
    from agent.dialects.native import NativeDialect

    return _framed(NativeDialect, options)


def _tongyi(options: DialectOptions) -> Dialect:
    from agent.dialects.tongyi import TongyiDialect

    return _framed(TongyiDialect, options)


def _guided(options: DialectOptions) -> Dialect:
    from agent.dialects.guided import MAX_OUTPUT_TOKENS, GuidedDialect

    return GuidedDialect(max_output_tokens=options.max_output_tokens or MAX_OUTPUT_TOKENS, sampling=options.sampling)


def _guided_small(options: DialectOptions) -> Dialect:
    from agent.dialects.guided import MAX_OUTPUT_TOKENS, GuidedDialect

    cap = options.max_output_tokens or MAX_OUTPUT_TOKENS
    return GuidedDialect(max_output_tokens=cap, small=True, sampling=options.sampling)


def _websailor(options: DialectOptions) -> Dialect:
    from agent.dialects.websailor import WebsailorDialect

    return _framed(WebsailorDialect, options)


def _react_text(options: DialectOptions) -> Dialect:
    from agent.dialects.react_text import ReactTextDialect

    return _framed(ReactTextDialect, options)


_MAKERS: dict[str, Callable[[DialectOptions], Dialect]] = {
    "native": _native,
    "tongyi": _tongyi,
    "websailor": _websailor,
    "react-text": _react_text,
    "guided": _guided,
    "guided-small": _guided_small,
}
