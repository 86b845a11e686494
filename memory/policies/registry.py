"""The one list of context policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from memory.policies.boundary import Boundary, BoundaryConfig
from memory.policies.fold_branch import FoldBranch, FoldBranchConfig
from memory.policies.fold_range import FoldRange, FoldRangeConfig
from memory.policies.keep_last_k import KeepLastK, KeepLastKConfig
from memory.policies.last_k import LastK, LastKConfig
from memory.policies.mmr import Mmr, MmrConfig
from memory.policies.mosaic import Mosaic, MosaicConfig
from memory.policies.pace import Pace, PaceConfig
from memory.policies.pacms import Pacms, PacmsConfig
from memory.policies.rag import Rag, RagConfig
from memory.policies.react import React, ReactConfig
from memory.policies.summary_append import SummaryAppend, SummaryAppendConfig
from memory.policies.summary_restart import SummaryRestart, SummaryRestartConfig
from memory.policies.summary_rolling import SummaryRolling, SummaryRollingConfig
from memory.policies.top_k import TopK, TopKConfig
from memory.ports import ContextPolicy


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """A policy's name, its config class, how it is made, and one line for people."""

    name: str
    config: type[BaseModel]
    make: Callable[[Any], ContextPolicy]
    summary: str


POLICIES: Mapping[str, PolicyEntry] = {
    entry.name: entry
    for entry in (
        PolicyEntry("pace", PaceConfig, Pace, "each old step at the resolution its relevance to the next action earns"),
        PolicyEntry("mosaic", MosaicConfig, Mosaic, "each old step at a resolution, by one optimiser"),
        PolicyEntry("react", ReactConfig, React, "the whole history in full, until the budget ends it"),
        PolicyEntry("last-k", LastKConfig, LastK, "the newest steps that the budget holds"),
        PolicyEntry("top-k", TopKConfig, TopK, "the most relevant steps that the budget holds"),
        PolicyEntry("rag", RagConfig, Rag, "the k most relevant steps, cut to the budget"),
        PolicyEntry("mmr", MmrConfig, Mmr, "relevance against redundancy, pair by pair"),
        PolicyEntry("pacms", PacmsConfig, Pacms, "the steps that together cover everything relevant best"),
        PolicyEntry("summary-append", SummaryAppendConfig, SummaryAppend, "every old step as its own summary"),
        PolicyEntry(
            "summary-restart", SummaryRestartConfig, SummaryRestart, "one summary when the budget is nearly full"
        ),
        PolicyEntry("summary-rolling", SummaryRollingConfig, SummaryRolling, "one running summary, kept up to date"),
        PolicyEntry("fold-range", FoldRangeConfig, FoldRange, "the model folds its newest steps into its own words"),
        PolicyEntry("fold-branch", FoldBranchConfig, FoldBranch, "sub-tasks in branches of which only a message stays"),
        PolicyEntry("boundary", BoundaryConfig, Boundary, "finished subgoals folded, the running one whole"),
        PolicyEntry("keep-last-k", KeepLastKConfig, KeepLastK, "the newest K tool results; older ones become a line"),
    )
}


class UnknownPolicy(ValueError):
    """No such policy; the message lists the ones there are."""


def make_policy(name: str, options: Mapping[str, object] | None = None) -> ContextPolicy:
    """A policy by name with its options. Raises UnknownPolicy, or pydantic's ValidationError for bad options."""
    entry = POLICIES.get(name)
    if entry is None:
        near = get_close_matches(name, POLICIES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownPolicy(f"unknown policy {name!r}: choose from {', '.join(sorted(POLICIES))}{hint}")
    return entry.make(entry.config.model_validate(dict(options or {})))
