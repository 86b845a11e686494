"""The grid: selectors, budgets and redundancies, one cell for each way to build a context."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memory.encoders.factory import EncoderConfig
from runners.errors import UsageFault
from runners.replay.variants import Variant, VariantRequest, make_plan

SELECTORS = ("last-k", "top-k", "rag", "mmr", "pacms", "pace", "mosaic")
"""The five of PACMS, and the two that show several levels."""
SHARES = (20.0, 45.0, 70.0)
MOST_REDUNDANCY = 64


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for the dialogue's turns: an absolute number, or a percentage of what all of them have."""

    tokens: int | None = None
    percent: float | None = None

    @property
    def label(self) -> str:
        """``4000`` or ``45%``."""
        return f"{self.percent:g}%" if self.percent is not None else str(self.tokens)

    def of(self, total: int) -> int:
        """Tokens of a dialogue with ``total``."""
        if self.percent is not None:
            return max(1, round(total * self.percent / 100))
        return self.tokens or 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to build a context. ``variant``: its budget is set for each dialogue; ``digest`` names its options."""

    selector: str
    budget: Budget
    redundancy: int
    variant: Variant
    digest: str

    def sized(self, total: int) -> Variant:
        """The variant for a dialogue of ``total`` tokens."""
        return replace(self.variant, budget=self.budget.of(total))


@dataclass(frozen=True, slots=True)
class GridRequest:
    """What the command line asks for; shares in percent."""

    selectors: Sequence[str] = SELECTORS
    shares: Sequence[float] = ()
    tokens: Sequence[int] = ()
    redundancy: Sequence[int] = (0,)
    profile: str | None = None
    file: Path | None = None
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells, selector by selector, and the encoder that they share."""

    cells: tuple[Cell, ...]
    encoder: EncoderConfig


def make_grid(request: GridRequest) -> Grid:
    """Raises UsageFault or ConfigError. Without any budget the shares of PACMS are taken."""
    if not request.selectors:
        raise UsageFault("--selectors: name at least one context policy")
    shares = request.shares or (() if request.tokens else SHARES)
    wrong = [share for share in shares if not 0 < share <= 100]
    if wrong:
        raise UsageFault(
            f"--budget-share {wrong[0]:g}: a percentage of the dialogue is expected, above 0 and up to 100"
        )
    if any(tokens < 1 for tokens in request.tokens):
        raise UsageFault(f"--budget-tokens: must be positive, not {min(request.tokens)}")
    far = [number for number in request.redundancy if not 0 <= number <= MOST_REDUNDANCY]
    if far or not request.redundancy:
        raise UsageFault(f"--redundancy {far[0] if far else ''}: fillers per evidence turn, 0 to {MOST_REDUNDANCY}")
    budgets = [Budget(percent=share) for share in dict.fromkeys(shares)]
    budgets += [Budget(tokens) for tokens in dict.fromkeys(request.tokens)]
    options = list(request.options)
    plan = make_plan(VariantRequest(request.selectors, [1], (), (), "history", request.profile, request.file, options))
    cells = [
        Cell(variant.label, budget, redundancy, variant, digest(variant))
        for variant in plan.variants
        for redundancy in dict.fromkeys(request.redundancy)
        for budget in budgets
    ]
    return Grid(tuple(cells), plan.encoder)


def digest(variant: Variant) -> str:
    """Names everything of a variant but its budget: results of other options are other results."""
    parts = [
        variant.policy,
        dict(variant.options),
        variant.memory.model_dump(mode="json", exclude={"budget"}),
        variant.summaries.model_dump(mode="json"),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
