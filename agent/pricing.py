"""Prices, from a YAML file that the user owns. What is not in it has no price: None, never 0.

::

    prices:                       # US dollars per million tokens
      some-model: {input: 0.25, cached_input: 0.025, output: 2.0}
      some-family-*: {input: 3.0, cached_input: 0.3, cache_write: 3.75, output: 15.0}

A name ending in ``*`` stands for every model that begins so. An exact name goes before a prefix, a longer prefix
before a shorter one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agent.backbones.base import Backbone, Wrapper
from agent.errors import BackboneFault
from memory.records import Reply, Request, Usage

_MILLION = 1_000_000


class ModelPrice(BaseModel):
    """US dollars per million tokens. ``cached_input`` and ``cache_write`` default to the price of plain input."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def cost(self, usage: Usage) -> float | None:
        """US dollars of one call, None when its input or output is unknown.

        ``usage.input_total`` includes cached tokens. Where the provider does not tell how many those were, all input
        is charged as plain: an upper bound.
        """
        if usage.input_total is None or usage.output is None:
            return None
        read, written = usage.cache_read or 0, usage.cache_write or 0
        plain = max(0, usage.input_total - read - written)
        dollars = (
            plain * self.input
            + read * (self.input if self.cached_input is None else self.cached_input)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output * self.output
        )
        return dollars / _MILLION


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    prices: dict[str, ModelPrice] = Field(default_factory=dict)


class Prices:
    """Prices by model name."""

    def __init__(self, prices: Mapping[str, ModelPrice] | None = None) -> None:
        given = prices or {}
        self._exact = {name: price for name, price in given.items() if not name.endswith("*")}
        prefixes = [(name[:-1], price) for name, price in given.items() if name.endswith("*")]
        self._prefixes = sorted(prefixes, key=lambda entry: len(entry[0]), reverse=True)

    @classmethod
    def load(cls, path: Path) -> Prices:
        """Read a price file. Raises OSError, or ValueError saying what is wrong in it."""
        import yaml

        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}") from error
        try:
            return cls(_PriceFile.model_validate(raw or {}).prices)
        except ValueError as error:
            raise ValueError(f"{path} is not a price file: {error}") from error

    def of(self, model: str) -> ModelPrice | None:
        """The price of a model, None when the file has none."""
        exact = self._exact.get(model)
        if exact is not None:
            return exact
        return next((price for prefix, price in self._prefixes if model.startswith(prefix)), None)

    def priced(self, model: str, usage: Usage) -> Usage:
        """The usage with its cost; a cost that the provider gave stays."""
        price = self.of(model)
        return usage if usage.cost is not None or price is None else replace(usage, cost=price.cost(usage))


class Priced(Wrapper):
    """A backbone whose replies carry their cost where the price is known."""

    def __init__(self, backbone: Backbone, prices: Prices) -> None:
        super().__init__(backbone)
        self._prices = prices

    async def complete(self, request: Request) -> Reply:
        try:
            reply = await self._backbone.complete(request)
        except BackboneFault as fault:
            fault.usage = self._prices.priced(self.model, fault.usage)
            raise
        return replace(reply, usage=self._prices.priced(self.model, reply.usage))
