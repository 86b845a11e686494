"""What sessions of every kind are made of: models, encoder, summarisers, from the configuration."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import lru_cache

from agent.backbones.base import Backbone
from agent.backbones.factory import BackboneConfig, make_backbone
from agent.pricing import Priced, Prices
from agent.spending import Spending
from memory.encoders.cache import CachedEncoder, KeyCache
from memory.encoders.factory import EncoderConfig, make_encoder
from memory.ports import BlockMaker, ChunkStore, Clock, Encoder, TokenCounter
from memory.summaries.build import build_worker
from memory.summaries.ranges import build_blocks
from memory.summaries.worker import SummaryWorker
from runners.config import RunConfig
from runners.environment import Environment
from runners.errors import ConfigError

ENCODER_KEY = "OPENAI_API_KEY"
"""The key that a `/v1/embeddings` server is sent."""


def priced_backbone(config: BackboneConfig, environment: Environment) -> Backbone:
    """The backbone, its calls priced where the user's price file knows the model."""
    backbone = make_backbone(config, environment.variables())
    prices = environment.home / "prices.yaml"
    if not prices.is_file():
        return backbone
    try:
        return Priced(backbone, Prices.load(prices))
    except ValueError as fault:
        raise ConfigError(str(fault)) from fault


def cached_encoder(config: RunConfig, environment: Environment, stack: AsyncExitStack) -> Encoder:
    """The encoder over the user's cache of keys, which ``stack`` closes. Sessions of one process share its weights."""
    key = environment.secret(ENCODER_KEY) if config.encoder.kind == "http" else None
    cache = KeyCache(environment.home / "cache" / "keys.sqlite")
    stack.callback(cache.close)
    return CachedEncoder(_loaded(config.encoder, key), cache)


@lru_cache(maxsize=2)
def _loaded(config: EncoderConfig, api_key: str | None) -> Encoder:
    """Loaded once for all sessions: encoders hold no state of a session, and those that must not be used by two threads
    at once see to that themselves. Raises EncoderFault."""
    return make_encoder(config, api_key=api_key)


def summarisers(
    config: RunConfig,
    environment: Environment,
    store: ChunkStore,
    counter: TokenCounter,
    clock: Clock,
    spending: Spending,
    judge: Encoder | None,
) -> tuple[SummaryWorker | None, BlockMaker]:
    """What summarises steps, and what summarises runs of them; one completion, which the worker closes. ``judge``: the
    encoder that measures what summaries preserve, where the policy asks for it."""
    model = config.summary_backbone or config.backbone
    completion = priced_backbone(model, environment) if config.summaries.kind == "llm" else None
    worker = build_worker(
        config.summaries,
        store,
        clock,
        counter,
        completion,
        window=model.window,
        record=spending.record,
        encoder=judge,
    )
    return worker, build_blocks(config.summaries, counter, completion, window=model.window, record=spending.record)
