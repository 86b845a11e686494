"""Settings of a session's memory."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from memory.fit import Overflow


class MemoryConfig(BaseModel):
    """How contexts are built. The policy's own constants are its own config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recent: int = Field(2, ge=1, le=16)
    """N: steps that stay whole at the end of every context."""
    budget: int | None = Field(128_000, gt=0)
    """B_max, tokens of input; the model's window minus output and margin if that is smaller. null: the window."""
    overflow: Overflow = "fit"
    """What happens when a plan exceeds the budget: ``fit`` cuts it, ``stop`` ends the session (the paper's stress)."""
    layout: Literal["interleaved", "ledger"] = "interleaved"
    """Where old steps stand: in time order (the paper), or a stable ledger with a focus section behind it, which a
    provider's prompt cache can hold."""
    batch: int = Field(8, ge=1)
    """Ledger layout: every how many steps the focus section may be rearranged."""
    spend: bool = True
    """Let what a plan leaves of the budget buy finer levels."""
    glimpse: bool = True
    """Offer the glimpse tool."""
    glimpse_page: int = Field(3_000, ge=200)
    """Tokens of one part of a glimpsed chunk."""
    key_wait_s: float = Field(5.0, gt=0)
    """How long a context waits for the keys of its old chunks before recency decides for those."""
