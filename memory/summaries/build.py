"""A summary worker over a session's store, from its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from memory.chunking import full_text
from memory.ports import ChunkStore, Clock, Completion, Encoder, TokenCounter
from memory.stored import UsageRow
from memory.summaries.base import Summariser, SummaryJob
from memory.summaries.config import SummaryConfig
from memory.summaries.fidelity import MeasuredSummariser
from memory.summaries.llm import LlmSummariser
from memory.summaries.process import ExtractiveSummariser
from memory.summaries.worker import SummaryWorker


def build_worker(
    config: SummaryConfig,
    store: ChunkStore,
    clock: Clock,
    counter: TokenCounter,
    completion: Completion | None = None,
    *,
    window: int = 32_000,
    record: Callable[[UsageRow], Awaitable[None]] | None = None,
    encoder: Encoder | None = None,
) -> SummaryWorker | None:
    """None when summaries are off. ``window``: input and output tokens of the completion, which the
    worker will close. ``record``: told of every model call (default: the store). ``encoder``: with one, the fidelity of
    every view is measured (for policies that need it).

    Raises ValueError when ``kind`` is ``llm`` and there is no completion.
    """
    if config.kind == "off":
        return None
    summariser: Summariser
    if config.kind == "llm":
        if completion is None:
            raise ValueError("summaries by a model need a completion")
        summariser = LlmSummariser(completion, config, counter, window=window, record=record or store.add_usage)
    else:
        summariser = ExtractiveSummariser(config, counter)

    if encoder is not None:
        summariser = MeasuredSummariser(summariser, encoder)

    async def load(number: int) -> SummaryJob:
        return await stored_job(store, number)

    return SummaryWorker(summariser, store.add_views, load, config, clock)


async def stored_job(store: ChunkStore, number: int) -> SummaryJob:
    """A stored chunk with the question that was in force. Raises NotStored."""
    chunk = (await store.chunks([number]))[0]
    question = next((q.text for q in await store.questions() if q.task == chunk.step.task), "")
    return SummaryJob(number, full_text(chunk.step), question, chunk.tokens_full)
