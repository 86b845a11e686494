"""Summaries by a language model: one call gives both levels."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from memory.errors import SummaryRejected
from memory.ports import Completion, TokenCounter
from memory.records import Request, Sampling, View
from memory.sanitize import sanitize
from memory.stored import UsageRow
from memory.summaries import checks, extractive, prompts
from memory.summaries.base import SummaryJob
from memory.summaries.config import SummaryConfig
from memory.tokens import ScriptCounter, request_tokens

Reduction: TypeAlias = Literal["head_tail", "map_reduce"]

_OVERRUN = 1.5
"""Models overrun the lengths they are asked for; beyond this factor the text is shortened by the extractive ranking."""
_MOST_PARTS = 16
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)


class _Levels(BaseModel):
    """What the model replies. Lists of points become lines."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    detailed: str
    brief: str

    @field_validator("detailed", "brief", mode="before")
    @classmethod
    def _lines(cls, value: object) -> object:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return "\n".join(value)
        return value


class LlmSummariser:
    """Summaries by any `Completion`.

    ``window``: tokens that one call may take in, prompt and reply together. A longer step is reduced, never refused:
    ``head_tail`` keeps its two ends (one call); ``map_reduce`` condenses it piecewise first (at most 16 pieces).
    ``record`` is told the usage of every call, also of those whose summary is rejected. Closes the completion only
    when ``owns_completion``.
    """

    def __init__(
        self,
        completion: Completion,
        config: SummaryConfig,
        counter: TokenCounter | None = None,
        *,
        window: int = 32_000,
        reduction: Reduction = "head_tail",
        record: Callable[[UsageRow], Awaitable[None]] | None = None,
        owns_completion: bool = True,
    ) -> None:
        self.producer = f"llm:{completion.name}"
        self.prompt_hash = prompts.model_prompt_hash(config.profile, config.detailed_tokens, config.brief_tokens)
        self._completion = completion
        self._config = config
        self._counter = counter or ScriptCounter()
        self._reduction = reduction
        self._record = record
        self._owns_completion = owns_completion
        # JSON quoting, and the overrun that is mended rather than lost
        self._output = 2 * (config.detailed_tokens + config.brief_tokens) + 200
        empty = prompts.messages(config.profile, "", "", detailed_tokens=999, brief_tokens=999)
        self._room = window - self._output - request_tokens(empty, "", self._counter)
        if self._room < 200:
            raise ValueError(f"a summariser's window of {window} tokens leaves no room for a step")

    async def summarise(self, job: SummaryJob) -> list[View]:
        """Both views. A step no longer than a level stands for that level itself.

        Raises SummaryRejected, or the completion's own errors.
        """
        text = job.text.strip()
        if self._counter.count(text) <= self._config.brief_tokens:
            detailed = brief = text
        else:
            room = self._room - self._counter.count(job.question)
            if self._reduction == "map_reduce" and self._counter.count(text) > room:
                text = await self._condense(job, text, room)
            detailed, brief = self._fitted(await self._ask(job, self._shortened(text, room)), job)
        return checks.views(job, detailed, brief, self._counter, producer=self.producer, prompt_hash=self.prompt_hash)

    async def aclose(self) -> None:
        """Close the completion."""
        if self._owns_completion:
            await self._completion.aclose()

    async def _ask(self, job: SummaryJob, text: str, part: int = 1, parts: int = 1) -> _Levels:
        request = Request(
            messages=prompts.messages(
                self._config.profile,
                job.question,
                text,
                detailed_tokens=self._config.detailed_tokens,
                brief_tokens=self._config.brief_tokens,
                part=part,
                parts=parts,
            ),
            schema=prompts.SCHEMA,
            max_output_tokens=self._output,
            sampling=Sampling(temperature=0.0),
        )
        reply = await self._completion.complete(request)
        if self._record is not None:
            await self._record(UsageRow(job.chunk, "summary", self._completion.name, reply.usage))
        checks.check_stop(reply.stop_reason)
        return read(reply.text)

    async def _condense(self, job: SummaryJob, text: str, room: int) -> str:
        """Map: the DETAILED text of each piece, joined (and cut by the caller if even that is too long)."""
        total = self._counter.count(text)
        parts = min(_MOST_PARTS, -(-total // room))
        size = -(-len(text) // parts)
        pieces: list[str] = []
        for part in range(parts):
            piece = self._shortened(text[part * size : (part + 1) * size], room)
            pieces.append((await self._ask(job, piece, part + 1, parts)).detailed)
        return "\n".join(pieces)

    def _shortened(self, text: str, room: int) -> str:
        """Head and tail of a text that is longer than ``room`` tokens."""
        short, chars, room = text, len(text), max(room, 100)
        while (tokens := self._counter.count(short)) > room:
            chars = min(chars - 1, chars * room // tokens)
            short = extractive.head_and_tail(text, chars)
        return short

    def _fitted(self, levels: _Levels, job: SummaryJob) -> tuple[str, str]:
        """Both texts checked, overruns shortened; a step no longer than a DETAILED text is its own."""
        for text in (levels.detailed, levels.brief):
            checks.check_text(text, job.text)
        source, most = job.text.strip(), self._config.detailed_tokens
        short = self._counter.count(source) <= most
        detailed = source if short else self._trimmed(levels.detailed.strip(), job, most)
        return detailed, self._trimmed(levels.brief.strip(), job, self._config.brief_tokens)

    def _trimmed(self, text: str, job: SummaryJob, most: int) -> str:
        count = self._counter.count
        if count(text) <= _OVERRUN * most:
            return text
        trimmed, _ = extractive.summarise(
            text, job.question, self._config.profile, detailed_tokens=most, brief_tokens=1, count=count
        )
        return trimmed


def read(text: str) -> _Levels:
    """Both levels from a reply, leniently: reasoning, code fences, prose around the object and broken JSON pass.

    Raises SummaryRejected when there is no object with both texts.
    """
    from json_repair import loads

    body = _THINK.sub("", text)
    start = body.find("{")
    if start < 0:
        checks.check_text(body, "")
        raise SummaryRejected(f"no JSON object in the reply: {body.strip()[:80]!r}")
    try:
        value = loads(body[start:])
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict)), None)
        levels = _Levels.model_validate(value)
        return _Levels(detailed=sanitize(levels.detailed), brief=sanitize(levels.brief))
    except (ValidationError, ValueError, RecursionError) as fault:
        raise SummaryRejected("the reply lacks one of its two texts") from fault
