"""Every benchmark by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.bench.datasets.browsecomp import BROWSECOMP, BROWSECOMP_ZH
from runners.bench.datasets.gaia import GAIA
from runners.bench.datasets.multihop import MULTIHOP
from runners.bench.datasets.webwalker import WEBWALKER
from runners.bench.datasets.widesearch import WIDESEARCH
from runners.bench.datasets.xbench import XBENCH
from runners.bench.tasks import Benchmark, Dataset, Task, chosen
from runners.errors import UsageFault
from runners.layers import did_you_mean

BENCHMARKS: Mapping[str, Benchmark] = {
    each.name: each for each in (GAIA, BROWSECOMP, BROWSECOMP_ZH, XBENCH, WIDESEARCH, WEBWALKER, MULTIHOP)
}


def benchmark(name: str) -> Benchmark:
    """Raises UsageFault with the names there are."""
    found = BENCHMARKS.get(name)
    if found is None:
        known = ", ".join(BENCHMARKS)
        raise UsageFault(f"unknown benchmark {name!r}: choose from {known}{did_you_mean(name, [*BENCHMARKS])}")
    return found


def load(which: Benchmark, data: Path, options: Mapping[str, str]) -> Dataset:
    """Raises UsageFault, also for an option that this benchmark does not have."""
    unknown = [name for name in options if name not in which.options]
    if unknown:
        known = ", ".join(which.options) or "none"
        raise UsageFault(f"{which.name} has no option {unknown[0]!r}; there are: {known}")
    return which.load(data, options)


def pick(tasks: Sequence[Task], ids: Sequence[str], limit: int | None, seed: int | None) -> tuple[Task, ...]:
    """The tasks of a run. Raises UsageFault for an id that is not there."""
    try:
        return chosen(tasks, ids, limit, seed)
    except KeyError as fault:
        raise UsageFault(f"--ids: there is no task {fault.args[0]!r}") from fault
