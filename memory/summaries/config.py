"""Settings of the summaries."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory.summaries.prompts import Profile


class SummaryConfig(BaseModel):
    """Who summarises, how long the summaries are, when they become visible, and what a failure costs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["extractive", "llm", "off"] = "extractive"
    publish: Literal["async", "lockstep"] = "async"
    """``async``: a summary is visible as soon as it is there. ``lockstep``: that of step t exactly at step t + 2."""
    profile: Profile = "research"
    detailed_tokens: int = Field(220, ge=40, le=2000)
    """Most tokens of a DETAILED text."""
    brief_tokens: int = Field(48, ge=12, le=400)
    """Most tokens of a BRIEF text."""
    concurrency: int = Field(2, ge=1, le=64)
    """Summaries made at once (a model's; the extractive one has a single process)."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds that one summary may take."""
    attempts: int = Field(3, ge=1, le=10)
    """Times that a chunk is tried before it goes without summaries until the session is opened again."""
    backoff_s: float = Field(2.0, ge=0)
    """Seconds before the second attempt; doubled for each further one, at most a minute."""

    @model_validator(mode="after")
    def _brief_is_shorter(self) -> SummaryConfig:
        if self.brief_tokens > self.detailed_tokens:
            raise ValueError("brief_tokens must not exceed detailed_tokens")
        return self
