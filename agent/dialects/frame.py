"""What dialects with a fixed request share: how they are made, and the request around a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agent.dialects.base import Situation
from memory.plan import Context
from memory.records import Request, Sampling, ToolSpec


class Framed:
    """``today`` (ISO date) is part of the system prompt; it must not change within a session. ``max_output_tokens`` and
    ``sampling`` None: the dialect's own. ``task_key`` goes into every `Request`."""

    most: ClassVar[int]
    """Output tokens of a reply."""
    own_sampling: ClassVar[Sampling] = Sampling()
    stop: ClassVar[tuple[str, ...]] = ()
    sends_tools: ClassVar[bool] = False
    """Whether the provider is given the tools; else they are text."""

    def __init__(
        self,
        *,
        max_output_tokens: int | None = None,
        sampling: Sampling | None = None,
        today: str = "",
        task_key: str = "",
    ) -> None:
        self._max_output_tokens = max_output_tokens or self.most
        self._sampling = sampling or self.own_sampling
        self._today = today
        self._task_key = task_key

    def request(self, context: Context, tools: Sequence[ToolSpec], situation: Situation) -> Request:
        return Request(
            messages=context.messages,
            tools=tuple(tools) if self.sends_tools else (),
            max_output_tokens=self._max_output_tokens,
            stop=self.stop,
            sampling=self._sampling,
            task_key=self._task_key,
        )
