"""A run's results on the disk: one file of plans and results, keyed by trial; nothing in it is ever replaced.

Of several lines with one key the last counts, but a finished trial is final. Whoever opens the file to write is alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from memory.records import JsonValue
from runners.bench.journal import Journal, read_journal
from runners.bench.rows import Kept, RunPlan, TrialKey, TrialRow, difference
from runners.errors import UsageFault

FORMAT = "longstride-bench-1"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a results file holds."""

    plans: tuple[RunPlan, ...]
    rows: Mapping[TrialKey, TrialRow]
    """The last of each key."""
    kept: tuple[Kept, ...] = ()
    """Databases that hold sessions of it, the last one last."""

    @property
    def plan(self) -> RunPlan:
        """The last one."""
        return self.plans[-1]

    def expected(self) -> list[TrialKey]:
        """Every trial that was ever planned, in order."""
        return list(dict.fromkeys(key for plan in self.plans for key in plan.trial_keys()))

    def labels(self) -> list[str]:
        """Policies in the order of their first plan."""
        return list(dict.fromkeys(variant.label for plan in self.plans for variant in plan.variants))


@cache
def _plans() -> TypeAdapter[RunPlan]:
    return TypeAdapter(RunPlan)


@cache
def _kept() -> TypeAdapter[Kept]:
    return TypeAdapter(Kept)


@cache
def _rows() -> TypeAdapter[TrialRow]:
    return TypeAdapter(TrialRow)


def result_files(folder: Path) -> list[Path]:
    """The results of a folder: one file, or one for each shard. Raises UsageFault for none."""
    found = sorted(folder.glob("results*.jsonl"))
    if not found:
        raise UsageFault(f"{folder}: no results in it", hint="the folder that `bench run --out` named")
    return found


def result_name(shard: tuple[int, int]) -> str:
    """Of the file of a shard."""
    return "results.jsonl" if shard == (1, 1) else f"results-{shard[0]}of{shard[1]}.jsonl"


def read_results(paths: Sequence[Path]) -> Recorded:
    """Results of one run from all its files. Raises UsageFault for files that do not belong together."""
    plans: list[RunPlan] = []
    rows: dict[TrialKey, TrialRow] = {}
    kept: list[Kept] = []
    for path in paths:
        for number, value in read_journal(path):
            where = f"{path}:{number}"
            if value.get("kind") == "plan":
                plan = validated(_plans(), value, where)
                if plans:
                    check_same(plans, plan, str(path))
                plans.append(plan)
            elif value.get("kind") == "result":
                row = validated(_rows(), value, where)
                if row.key not in rows or not rows[row.key].finished:
                    rows[row.key] = row
            elif value.get("kind") == "sessions":
                kept.append(validated(_kept(), value, where))
            else:
                raise UsageFault(f"{where}: neither a plan nor a result")
    if not plans:
        raise UsageFault(f"{', '.join(map(str, paths))}: no plan in it", hint="start it with `bench run`")
    return Recorded(tuple(plans), rows, tuple(kept))


def check_same(plans: Sequence[RunPlan], new: RunPlan, where: str) -> None:
    """Raises UsageFault, saying what differs, when a plan cannot join what is recorded."""
    elsewhere = "take another --out for it"
    first = plans[0]
    if new.benchmark != first.benchmark:
        raise UsageFault(f"{where} holds results of {first.benchmark}, not of {new.benchmark}", hint=elsewhere)
    if new.dataset != first.dataset:
        raise UsageFault(
            f"{where}: the dataset has changed: {first.dataset[:12]} then, {new.dataset[:12]} now",
            hint="results on different data cannot be joined: restore the data, or " + elsewhere,
        )
    if new.options != first.options:
        raise UsageFault(f"{where}: options of the dataset were {first.options}, now {new.options}", hint=elsewhere)
    if new.corpus != first.corpus:
        raise UsageFault(f"{where}: the corpus was {first.corpus}, now {new.corpus}", hint=elsewhere)
    known = {variant.label: variant for plan in plans for variant in plan.variants}
    for variant in new.variants:
        old = known.get(variant.label)
        if old is not None and old.config_hash != variant.config_hash:
            changed = ", ".join(difference(old.tree(), variant.tree())[:5])
            raise UsageFault(f"{where}: policy {variant.label} was configured otherwise: {changed}", hint=elsewhere)


class Results:
    """The results file of one run or shard, open for writing."""

    def __init__(self, folder: Path, plan: RunPlan) -> None:
        """Join or begin it. Raises UsageFault: another writer, another dataset, another configuration."""
        self._journal = Journal(folder / result_name(plan.shard))
        try:
            self._join(folder, plan)
        except BaseException:
            self._journal.close()
            raise

    def _join(self, folder: Path, plan: RunPlan) -> None:
        others = [path for path in folder.glob("results*.jsonl") if path.stat().st_size]
        recorded = read_results(sorted(others)) if others else Recorded((), {})
        if recorded.plans:
            check_same(recorded.plans, plan, str(self._journal.path))
        self._rows = dict(recorded.rows)
        if not recorded.plans or plan not in recorded.plans:
            self._journal.append({"kind": "plan", "format": FORMAT, **asdict(plan)})

    def kept(self) -> Kept | None:
        """The database that this file's sessions were last kept in; None where none was named."""
        found = read_results([self._journal.path]).kept
        return found[-1] if found else None

    def keep_in(self, database: str, run: str) -> Kept:
        """Write down that sessions are kept there; ``run`` is their name unless they have one. ``database``: its
        address without a password."""
        before = self.kept()
        kept = Kept(before.run if before else run, database)
        if kept != before:
            self._journal.append({"kind": "sessions", **asdict(kept)})
        return kept

    @property
    def rows(self) -> Mapping[TrialKey, TrialRow]:
        return self._rows

    def finished(self, key: TrialKey) -> bool:
        """Whether a trial has its result: it is never run again."""
        row = self._rows.get(key)
        return row is not None and row.finished

    def append(self, row: TrialRow) -> None:
        """Write a result down. Raises ValueError for a trial that has one."""
        if self.finished(row.key):
            raise ValueError(f"{row.key} has its result already")
        line: dict[str, JsonValue] = {"kind": "result", **asdict(row)}
        self._journal.append(line)
        self._rows[row.key] = row

    def close(self) -> None:
        self._journal.close()


def validated(adapter: TypeAdapter[T], value: Mapping[str, object], where: str) -> T:
    """A line of a journal as its record. Raises UsageFault naming the line."""
    try:
        return adapter.validate_python({key: item for key, item in value.items() if key not in ("kind", "format")})
    except ValidationError as fault:
        first = fault.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise UsageFault(f"{where}: {at}: {first['msg'].lower()}", hint="not a results file of this version") from fault
