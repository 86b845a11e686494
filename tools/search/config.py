"""Settings of search."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tools.search.shapes import NAMES
from tools.web.blocklist import Blocklist


class ProviderConfig(BaseModel):
    """One provider. ``base_url`` stands before the environment's. ``key_env`` names another variable with the key, and
    must say so: ``…_KEY``, ``…_TOKEN``. ``rpm``: requests per minute (null: what the provider allows as a rule);
    ``timeout_s``: seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    key_env: str | None = Field(default=None, pattern=r"(_KEYS?|_KEY_ID|_TOKEN|_SECRET|_PASSWORD)$")
    rpm: int | None = Field(default=None, ge=1)
    concurrency: int = Field(default=4, ge=1, le=64)
    timeout_s: float = Field(default=20.0, gt=0)

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in NAMES:
            raise ValueError(f"unknown search provider {value!r}: choose from {', '.join(NAMES)}")
        return value


class SearchConfig(BaseModel):
    """``providers``: asked in this order, the next when one fails or finds nothing; empty: all for which there is a key
    or an address. A bare name will do. ``results``: hits per query. ``max_age_s``: how long a recorded search is used
    again. ``offline``: only recorded searches (and the local corpus).

    ``blocklists``: names of packaged lists (``benchmarks``) or YAML files; ``blocked``: hosts, or hosts with the
    beginning of a path. Neither search nor visit shows such pages.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    providers: tuple[ProviderConfig, ...] = ()
    results: int = Field(default=10, ge=1, le=50)
    timeout_s: float = Field(default=60.0, gt=0)
    max_age_s: float = Field(default=86_400.0, ge=0)
    offline: bool = False
    blocklists: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @field_validator("providers", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        if isinstance(value, str):
            value = [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, list | tuple):
            return [{"name": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("blocked")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Blocklist(value)
        return value
