"""What a stress run compares: cells of policy, budget and lambda, each one session of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from memory.records import JsonValue
from runners.bench.planning import label_of
from runners.config import RunConfig, config_tree, load_config
from runners.errors import UsageFault
from runners.layers import key_paths
from runners.request import ConfigRequest
from runners.stress.facts import DISTANCES
from runners.stress.probes import shadows

Workload: TypeAlias = Literal["ask", "visits"]
"""``ask``: the backbone works on one question after another. ``visits``: a script reads page after page."""
Overflow: TypeAlias = Literal["auto", "stop", "fit"]
STOPPING = ("react", "summary-", "fold-", "pace")
"""Policies that end where their unfitted plan exceeds the budget, as published (``auto``)."""
TEXTS = ("summary-re", "summary-ro", "fold-", "boundary")
"""Policies that have texts made for runs of steps: those belong to a session of their own."""
PLAN = "plan.json"
FORMAT = "longstride-stress-1"


@dataclass(frozen=True, slots=True)
class Cell:
    """One session. ``config``: the whole configuration, as stored in a session."""

    label: str
    policy: str
    budget: int
    lam: float | None
    overflow: str
    config: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What every cell does. ``every``: of a scripted session, how many steps lie between two contexts."""

    workload: Workload
    benchmark: str
    data: str
    steps: int
    question_steps: int = 24
    every: int = 1
    probe_every: int = 100
    distances: tuple[int, ...] = DISTANCES
    also: tuple[str, ...] = ()
    """Policies that are shown the same session at every probe, at the same budget."""
    read: bool = True
    """Whether the backbone answers the probes too."""
    seed: int = 0
    dataset: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the benchmark, such as ``level`` for GAIA."""
    corpus: str | None = None
    """Searched instead of the web; None: what the benchmark brings."""


@dataclass(frozen=True, slots=True)
class StressPlan:
    work: Work
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class StressRequest:
    """What the command line asks for."""

    work: Work
    policies: Sequence[str]
    budgets: Sequence[int]
    lambdas: Sequence[float] = ()
    overflow: Overflow = "auto"
    backbone: str | None = None
    profile: str | None = None
    config: Path | None = None
    options: Sequence[str] = ()


def make_plan(request: StressRequest) -> StressPlan:
    """Raises ConfigError and UsageFault."""
    if not request.policies or not request.budgets:
        raise UsageFault("a stress run needs at least one policy and one budget")
    if min(request.budgets) < 1:
        raise UsageFault(f"--budget: must be positive, not {min(request.budgets)}")
    foreign = next((name for name in request.work.also if name.startswith(TEXTS)), None)
    if foreign:
        raise UsageFault(f"--also {foreign}: it needs a session of its own", hint="take it up in --policy")
    shadows(request.work.also, request.budgets[0])
    cells: list[Cell] = []
    for budget in dict.fromkeys(request.budgets):
        for policy in dict.fromkeys(request.policies):
            plain = _load(request, policy, ())
            has_lambda = ("lambda",) in key_paths(type(plain.policy.options))
            lambdas = dict.fromkeys(request.lambdas) if has_lambda and request.lambdas else (None,)
            cells += [_cell(request, policy, budget, lam) for lam in lambdas]
    labels = [cell.label for cell in cells]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice:
        raise UsageFault(f"--policy: {twice} stands twice")
    return StressPlan(request.work, tuple(cells))


def _cell(request: StressRequest, policy: str, budget: int, lam: float | None) -> Cell:
    options = [f"memory.budget={budget}", f"limits.max_steps={request.work.question_steps}"]
    overflow = request.overflow
    if overflow == "auto":
        overflow = "stop" if policy.startswith(STOPPING) else "fit"
    options.append(f"memory.overflow={overflow}")
    if overflow == "stop":
        options.append("memory.spend=false")
    if policy.startswith("mosaic"):
        options.append("memory.layout=ledger")
    if lam is not None:
        options.append(f"policy.lambda={lam}")
    config = _load(request, policy, options)
    name = label_of(policy, config)
    label = f"{name}{'' if lam is None else f'-l{lam:g}'}-{budget}"
    return Cell(label, name, budget, lam, overflow, config_tree(config))


def _load(request: StressRequest, policy: str, options: Sequence[str]) -> RunConfig:
    given = ("summaries.publish=lockstep", *options, *request.options)
    return load_config(ConfigRequest(request.profile, policy, request.backbone, request.config, given))


def settle(plan: StressPlan, out: Path) -> StressPlan:
    """Write the plan down, or find that the folder holds the same one. Steps may be raised. Raises UsageFault."""
    file = out / PLAN
    if file.is_file():
        known = read_plan(out)
        if _identity(known) != _identity(plan):
            raise UsageFault(
                f"{out} holds another stress run",
                hint="repeat its options (only --steps and --max-seconds may change), or take another --out",
            )
    try:
        out.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps({"format": FORMAT, **asdict(plan)}, indent=1) + "\n", "utf-8")
        part.replace(file)
    except OSError as fault:
        raise UsageFault(f"--out {out}: cannot be written: {fault.strerror or fault}") from fault
    return plan


def read_plan(out: Path) -> StressPlan:
    """The plan of a folder. Raises UsageFault."""
    file = out / PLAN
    try:
        tree = json.loads(file.read_text("utf-8"))
    except OSError as fault:
        raise UsageFault(f"{out}: no stress run is there", hint="`longstride stress DATA --out` begins one") from fault
    except ValueError as fault:
        raise UsageFault(f"{file}: damaged: {fault}", hint="begin again with another --out") from fault
    try:
        if tree["format"] != FORMAT:
            raise UsageFault(f"{file}: is of another version: {tree['format']}")
        work = Work(
            **{**tree["work"], "distances": tuple(tree["work"]["distances"]), "also": tuple(tree["work"]["also"])}
        )
        return StressPlan(work, tuple(Cell(**cell) for cell in tree["cells"]))
    except (KeyError, TypeError) as fault:
        raise UsageFault(f"{file}: damaged: {fault}", hint="begin again with another --out") from fault


def _identity(plan: StressPlan) -> str:
    """All but how far it goes."""
    work = replace(plan.work, steps=0, data="")
    text = json.dumps(asdict(StressPlan(work, plan.cells)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
