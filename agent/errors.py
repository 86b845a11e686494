"""What can end, or interrupt, a run.

::

    AgentFault
    ├── BackboneFault            a model call failed; mapped once, in ``agent.backbones``
    │   ├── Unavailable          network, 5xx, overloaded, model gone (retryable unless the model does not exist)
    │   ├── RateLimited          429; carries ``retry_after``
    │   ├── BrokenStream         the stream was cut, or carried an error, or had no end marker: nothing of it is used
    │   ├── AuthFailed           401, 403, no key
    │   ├── BadRequest           the provider refuses the request itself
    │   ├── ContextTooLong       the provider says the prompt is longer than its window
    │   ├── ModelMissing         a local model, what runs it, or a usable address of a server is not there
    │   └── ScriptExhausted / ScriptUnused   the strict fake was asked for more, or less, than it was told
    ├── UnusableTool             a tool whose parameters a dialect cannot write; said when the session is opened
    ├── ParseFailure             a reply that the dialect cannot read; becomes a note that the model can mend
    └── Stop                     the run ends with a named status; carries what must be recorded
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from memory.records import Usage

Status: TypeAlias = Literal[
    "completed",
    "budget",
    "stuck",
    "refused",
    "model_empty",
    "model_unavailable",
    "request_rejected",
    "script_exhausted",
    "auth",
    "context_exhausted",
    "storage_full",
    "store_busy",
    "storage_failed",
    "paused",
    "crashed",
    "interrupted",
]


class AgentFault(Exception):
    """Root. ``retryable``: the same call may succeed later. ``hint``: what a person can do."""

    retryable: bool = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BackboneFault(AgentFault):
    """A model call failed. ``usage``: what was paid for replies that broke on the way, as far as it is known."""

    usage: Usage = Usage()


class Unavailable(BackboneFault):
    """The model cannot be reached or does not exist."""

    def __init__(self, message: str, *, hint: str = "", retryable: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class RateLimited(BackboneFault):
    """Too many requests. ``retry_after``: seconds, when the provider said so."""

    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BrokenStream(BackboneFault):
    """Half a reply. Discarded whole."""

    retryable = True


class AuthFailed(BackboneFault):
    """The provider does not accept the key, or there is none."""


class BadRequest(BackboneFault):
    """The provider refuses the request as such."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "change in the backbone's settings what the server names, then resume")


class ContextTooLong(BackboneFault):
    """The provider says the prompt exceeds its window. ``limit``: tokens, when it said so."""

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class ModelMissing(BackboneFault):
    """A local model or the library that runs it is not here, or what names the server is no address."""


class ScriptExhausted(BackboneFault):
    """The scripted backbone was called more often than it was told."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "give it a reply for each call")


class ScriptUnused(BackboneFault):
    """The scripted backbone was closed with steps left."""


class UnusableTool(AgentFault):
    """A dialect cannot offer this tool."""


class ParseFailure(AgentFault):
    """A reply that the dialect cannot read. ``cut``: the reply hit the output limit; nothing of it is executed."""

    def __init__(self, message: str, *, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


class Stop(AgentFault):
    """The run ends here, with a name."""

    def __init__(self, status: Status, message: str = "") -> None:
        super().__init__(message or status)
        self.status: Status = status
