"""A context engine of OpenClaw's contract: it selects, and leaves compaction to the host.

The contract's names are kept (`info`, `ingest`, `assemble`, `compact`, `ownsCompaction`, `tokenBudget`), so that a
plugin in the host's language is a thin bridge to this, or to `POST /select` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory.errors import MustKeepTooLarge
from memory.tokens import MESSAGE_OVERHEAD, ScriptCounter
from runners.service.messages import PACMSSelector, Selecting, text_of

Message = Mapping[str, Any]
Compaction = Callable[..., dict[str, Any]]


class Engine:
    """``through``: the client of a service, or a selector in process. ``host_compact``: the host's own compaction."""

    info: Mapping[str, Any] = {
        "id": "longstride",
        "name": "longstride selection",
        "ownsCompaction": False,
        "acceptedHostParams": ["prompt"],
    }

    def __init__(self, through: Selecting, host_compact: Compaction) -> None:
        self._through = through
        self._host_compact = host_compact
        self._counter = ScriptCounter()

    def ingest(self, *, sessionId: str, message: Message, isHeartbeat: bool = False) -> dict[str, bool]:
        """The host persists messages, and hands them over in `assemble`: there is nothing to keep twice."""
        return {"ingested": not isHeartbeat}

    def assemble(
        self,
        *,
        sessionId: str,
        messages: Sequence[Message],
        tokenBudget: int,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """The messages that fit. When not even what must be kept fits, all of them: the host sees that it overflows,
        and compacts."""
        try:
            kept = PACMSSelector(self._through, tokenBudget)(messages, prompt)
        except MustKeepTooLarge:
            kept = list(messages)
        tokens = sum(MESSAGE_OVERHEAD + self._counter.count(text_of(message)[0]) for message in kept)
        # what is left out is still in the transcript: the host goes on looking at its length too
        return {"messages": kept, "estimatedTokens": tokens, "promptAuthority": "preassembly_may_overflow"}

    def compact(self, **given: Any) -> dict[str, Any]:
        """Delegated. Without this a host that overflows cannot recover."""
        return self._host_compact(**given)
