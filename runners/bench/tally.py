"""A run's results and grades as values by policy, measure and question: what every table is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runners.bench.grading import official_measures, opened, sealer_of
from runners.bench.results import Recorded, read_results, result_files
from runners.bench.rows import GradeRow, TrialKey, TrialRow
from runners.bench.scores import answer_hash, read_grades
from runners.bench.tasks import Benchmark, Dataset, Task
from runners.errors import UsageFault

ALL = "all"
JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Trials:
    """One policy's trials with their measures, in the order of the plan. ``grades``: the judge's, by trial."""

    label: str
    rows: tuple[TrialRow, ...]
    """Texts in plaintext."""
    measures: Mapping[TrialKey, Mapping[str, float]]
    grades: Mapping[TrialKey, GradeRow] = field(default_factory=dict)
    planned: int = 0

    def values(self, measure: str, tasks: Mapping[str, object] | None = None) -> dict[str, list[float]]:
        """Question -> its rollouts, of the questions in ``tasks`` (None: all). What has no value counts 0; a question
        whose answer the split keeps to itself has no measures, and is left out."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            if (tasks is None or row.task in tasks) and self.measures[row.key]:
                found.setdefault(row.task, []).append(self.measures[row.key].get(measure, 0.0))
        return found


@dataclass(frozen=True, slots=True)
class Tally:
    """Everything that a report is made of. ``measures``: those of the official rule, then the judge's."""

    benchmark: Benchmark
    dataset: Dataset
    trials: tuple[Trials, ...]
    measures: tuple[str, ...]
    judge: str = ""
    """Name of the judge whose grades are used; empty without one."""

    @property
    def deciding(self) -> str:
        """The measure that says whether a trial is right: the judge's where there is one and no rule is official."""
        if self.benchmark.name == "widesearch":
            return f"{JUDGE}_success" if f"{JUDGE}_success" in self.measures else "success"
        return JUDGE if JUDGE in self.measures and self.benchmark.judged else self.measures[0]

    def tasks(self) -> dict[str, Task]:
        return {task.id: task for task in self.dataset.tasks}

    def strata(self) -> dict[str, dict[str, object]]:
        """Row -> the questions in it; all of them first."""
        used = {row.task for each in self.trials for row in each.rows}
        found: dict[str, dict[str, object]] = {ALL: dict.fromkeys(used)}
        for task in self.dataset.tasks:
            for stratum in task.strata if task.id in used else ():
                found.setdefault(stratum, {})[task.id] = None
        return {ALL: found.pop(ALL)} | {name: found[name] for name in sorted(found)}


def judges(folder: Path) -> list[str]:
    """Judges that graded a run, the one of the last grade first."""
    return list(reversed(list(dict.fromkeys(judge for _, judge in read_grades(folder)))))


def tally(folder: Path, benchmark: Benchmark, dataset: Dataset, judge: str = "", prefix: str = "") -> Tally:
    """Read a run. ``judge``: whose grades (default: the last judge's); ``prefix``: of the policies' names.

    Raises UsageFault.
    """
    recorded = read_results(result_files(folder))
    grades = read_grades(folder)
    known = judges(folder)
    if judge and judge not in known:
        raise UsageFault(f"{folder}: no grades by {judge}", hint=f"there are: {', '.join(known) or 'none'}")
    judge = judge or (known[0] if known else "")
    tasks = {task.id: task for task in dataset.tasks}
    trials = [_trials(recorded, label, benchmark, dataset, tasks, grades, judge) for label in recorded.labels()]
    if not any(each.rows for each in trials):
        raise UsageFault(f"{folder}: no trial has ended yet", hint=f"longstride bench resume {folder}")
    found = dict.fromkeys(name for each in trials for measures in each.measures.values() for name in measures)
    order = [name for name in (*benchmark.measures, *found) if name in found]
    named = tuple(replace(each, label=prefix + each.label) for each in trials)
    return Tally(benchmark, dataset, named, tuple(dict.fromkeys(order)) or (JUDGE,), judge)


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name for each run: the last parts of its folder, as few as tell them apart. Raises UsageFault for one twice."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    raise UsageFault("the same run stands twice: nothing to compare")


def joined(tallies: Sequence[Tally]) -> Tally:
    """Several runs of one dataset side by side. Raises UsageFault for runs of different data."""
    first = tallies[0]
    for other in tallies[1:]:
        if (other.benchmark.name, other.dataset.hash) != (first.benchmark.name, first.dataset.hash):
            raise UsageFault("these runs are of different data: their questions cannot be paired")
    common = [name for name in first.measures if all(name in other.measures for other in tallies)]
    trials = tuple(each for one in tallies for each in one.trials)
    judge = first.judge if len({one.judge for one in tallies}) == 1 else ""
    return replace(first, trials=trials, measures=tuple(common), judge=judge)


def _trials(
    recorded: Recorded,
    label: str,
    benchmark: Benchmark,
    dataset: Dataset,
    tasks: dict[str, Task],
    grades: Mapping[tuple[TrialKey, str], GradeRow],
    judge: str,
) -> Trials:
    keys = [key for key in recorded.expected() if key.policy == label]
    rows, measures, judged = [], {}, {}
    for sealed in (recorded.rows[key] for key in keys if key in recorded.rows):
        sealer = sealer_of(benchmark, dataset, tasks, sealed)
        row = opened(sealed, sealer)
        rows.append(row)
        named = answer_hash(row.answer, sealer.password)
        task = tasks[row.task]
        measures[row.key] = official_measures(benchmark, task, row)
        if not (task.golds or task.table):
            continue
        grade = grades.get((row.key, judge))
        if judge and (grade is None or grade.answer_hash != named):
            grade = GradeRow(row.policy, row.task, row.rollout, judge, "ungraded", reason="not judged yet")
        if grade is not None and judge:
            judged[row.key] = grade
            measures[row.key][JUDGE] = float(grade.grade == "correct")
            measures[row.key] |= {f"{JUDGE}_{name}": value for name, value in grade.measures.items()}
    return Trials(label, tuple(rows), measures, judged, len(keys))


def majority(rows: Sequence[tuple[str, float]]) -> float:
    """The value of the answer that most rollouts gave; of equals the earliest (upstream draws lots). Who gave none has
    no vote."""
    votes = Counter(answer for answer, _ in rows if answer)
    if not votes:
        return 0.0
    winner = max(votes, key=lambda answer: votes[answer])
    return next(value for answer, value in rows if answer == winner)
