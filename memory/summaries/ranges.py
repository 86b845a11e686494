"""Texts that stand for runs of steps: running summaries, folds, finished subgoals. Both makers are `BlockMaker`s.

What is promised of every text: not empty, no refusal, no error message, not cut off, not longer than what it stands
for, and within its bound as a rendered block. A model that cannot keep that is replaced by extraction, and the block's
``producer`` says so: a policy that waits for a text always gets one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence

from memory.errors import SummaryRejected
from memory.frame import range_block
from memory.plan import Block, NeedsSummary
from memory.ports import BlockMaker, Completion, TokenCounter
from memory.records import Request, Sampling
from memory.sanitize import sanitize
from memory.stored import UsageRow
from memory.summaries import checks, prompts
from memory.summaries.condense import condense
from memory.summaries.config import SummaryConfig
from memory.summaries.extractive import cut
from memory.summaries.prompts import Profile
from memory.tokens import request_tokens

ATTEMPTS = 2
"""Calls for one text; the second is told why the first was rejected."""
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)
_LEAST_ROOM = 400

log = logging.getLogger(__name__)


def build_blocks(
    config: SummaryConfig,
    counter: TokenCounter,
    completion: Completion | None = None,
    *,
    window: int = 32_000,
    record: Callable[[UsageRow], Awaitable[None]] | None = None,
) -> BlockMaker:
    """The maker that suits the summaries' settings; extraction also when those are off, because a policy that folds
    cannot plan without. The completion stays the caller's."""
    extractive = ExtractiveBlocks(config, counter)
    if config.kind != "llm" or completion is None:
        return extractive
    return LlmBlocks(completion, config, counter, extractive, window=window, record=record)


class ExtractiveBlocks:
    """Blocks by `memory.summaries.condense`, in a thread: the event loop stays free."""

    producer = "extractive"

    def __init__(self, config: SummaryConfig, counter: TokenCounter) -> None:
        self._config = config
        self._counter = counter

    async def make(self, need: NeedsSummary, number: int, step: int, texts: Sequence[str], question: str) -> Block:
        """Never fails: where there is nothing to say, the text says so."""
        profile = self._config.profile
        return await asyncio.to_thread(extracted, need, number, step, texts, question, self._counter, profile)

    async def condensed(self, texts: Sequence[str], question: str, tokens: int, previous: str = "") -> str:
        """`condense` off the event loop."""
        return await asyncio.to_thread(
            condense, texts, question, tokens, self._counter.count, previous=previous, profile=self._config.profile
        )


def extracted(
    need: NeedsSummary,
    number: int,
    step: int,
    texts: Sequence[str],
    question: str,
    counter: TokenCounter,
    profile: Profile = "research",
) -> Block:
    """The extractive block, here and now: for replays, and for the thread of `ExtractiveBlocks`."""
    previous = need.merge.text if need.merge else ""
    text = condense(texts, question, text_room(need, counter), counter.count, previous=previous, profile=profile)
    return sealed(need, number, step, text, ExtractiveBlocks.producer, counter)


class LlmBlocks:
    """Blocks by any `Completion`; what it fails to do, ``fallback`` does.

    ``window``: tokens of one call, prompt and reply together; a longer range is condensed before it is sent.
    """

    def __init__(
        self,
        completion: Completion,
        config: SummaryConfig,
        counter: TokenCounter,
        fallback: ExtractiveBlocks,
        *,
        window: int = 32_000,
        record: Callable[[UsageRow], Awaitable[None]] | None = None,
    ) -> None:
        self.producer = f"llm:{completion.name}"
        self._completion = completion
        self._config = config
        self._counter = counter
        self._fallback = fallback
        self._window = window
        self._record = record

    async def make(self, need: NeedsSummary, number: int, step: int, texts: Sequence[str], question: str) -> Block:
        """At most `ATTEMPTS` calls and ``timeout_s`` seconds, then extraction."""
        try:
            async with asyncio.timeout(self._config.timeout_s):
                text = await self._asked(need, step, texts, question)
        except Exception:
            log.warning("c%d-c%d: the model gave no summary, extraction does", need.first, need.last, exc_info=True)
            block = await self._fallback.make(need, number, step, texts, question)
            return sealed(need, number, step, block.text, f"extractive ({self.producer} failed)", self._counter)
        return sealed(need, number, step, text, self.producer, self._counter)

    async def _asked(self, need: NeedsSummary, step: int, texts: Sequence[str], question: str) -> str:
        previous = need.merge.text if need.merge else ""
        bound = text_room(need, self._counter)
        source = await self._fitting(texts, question, previous, bound)
        why = ""
        for _ in range(ATTEMPTS):
            request = Request(
                prompts.range_messages(
                    self._config.profile, question, source, previous=previous, tokens=bound * 3 // 4, rejected=why
                ),
                max_output_tokens=2 * bound + 200,
                sampling=Sampling(temperature=0.0),
            )
            reply = await self._completion.complete(request)
            if self._record is not None:
                await self._record(UsageRow(step, "summary", self._completion.name, reply.usage))
            text = sanitize(_THINK.sub("", reply.text)).strip()
            try:
                checks.check_stop(reply.stop_reason)
                checks.check_text(text, source + previous)
                self._check_length(text, previous + "\n".join(texts))
                if self._counter.count(text) > bound:
                    return await self._fallback.condensed([], question, bound, text)
                return text
            except SummaryRejected as rejected:
                why = str(rejected)
        raise SummaryRejected(f"{ATTEMPTS} replies rejected, the last: {why}")

    async def _fitting(self, texts: Sequence[str], question: str, previous: str, bound: int) -> str:
        """The steps as one text that the model's window holds."""
        empty = prompts.range_messages(self._config.profile, question, "", previous=previous, tokens=999, rejected="")
        room = self._window - 2 * bound - 300 - request_tokens(empty, "", self._counter)
        whole = "".join(texts)
        if self._counter.count(whole) <= room:
            return whole
        return await self._fallback.condensed(texts, question, max(room, _LEAST_ROOM))

    def _check_length(self, text: str, source: str) -> None:
        if self._counter.count(text) > self._counter.count(source):
            raise SummaryRejected("it is longer than what it summarises")


def text_room(need: NeedsSummary, counter: TokenCounter) -> int:
    """Tokens that the text may have, so that its rendered block stays within ``need.tokens``."""
    first = need.merge.first if need.merge else need.first
    return max(1, need.tokens - counter.count(range_block(first, need.last, need.kind, "")))


def sealed(need: NeedsSummary, number: int, step: int, text: str, producer: str, counter: TokenCounter) -> Block:
    """The block, within its bound as rendered: what is over it is cut off at the end."""
    first = need.merge.first if need.merge else need.first
    room = text_room(need, counter)
    while (tokens := counter.count(range_block(first, need.last, need.kind, text))) > need.tokens and text:
        # defused headers make a text longer than it counts by itself
        text, room = cut(text, room, counter.count), room * 9 // 10
    return Block(number, first, need.last, need.kind, text, tokens, producer, step)
