"""Trials in the formats of others: Alibaba's jsonl, OpenAI messages, ATIF (written by `runners.sessions.formats`).

Texts of private sets are sealed: the files keep their form, and open with the data.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from memory.records import JsonValue, Observation, Source, Step, ToolCall
from memory.stored import Question
from runners.bench.places import safe, trial_path
from runners.bench.render import write
from runners.bench.rows import RunPlan, TrialRow
from runners.bench.secrecy import Sealer, expect_no_leak
from runners.bench.tally import Tally
from runners.bench.tasks import Task
from runners.bench.trajectories import Trails
from runners.redact import Redactor
from runners.sessions.content import Head, redacted_step
from runners.sessions.formats import WRITERS

Format: TypeAlias = Literal["alibaba", "openai", "atif", "inspect"]


@dataclass(frozen=True, slots=True)
class Told:
    """One trial as it is handed on: its texts without secrets, sealed where they have to be."""

    task: Task
    row: TrialRow
    steps: tuple[Step, ...]
    model: str
    measures: Mapping[str, float]
    grade: str = ""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """One export of a run to ``to``."""

    to: Path
    tally: Tally
    plan: RunPlan
    redact: Redactor
    trails: Trails


def export(job: ExportJob, form: Format) -> list[Path]:
    """Write every finished trial; the files. Raises UsageFault, and removes nothing."""
    written: list[Path] = []
    for trials in job.tally.trials:
        told = list(_told(job, trials.label))
        if form == "inspect":
            from runners.bench.inspect_log import write_log

            written.append(write_log(job.tally, trials.label, told, job.to / f"{safe(trials.label)}.eval"))
            continue
        for path, text in _texts(form, job.to, trials.label, told):
            write(path, text, "--to")
            written.append(path)
    if job.tally.benchmark.private:
        expect_no_leak([job.to], job.tally.dataset.tasks)
    return written


def _texts(form: Format, to: Path, label: str, told: Sequence[Told]) -> Iterator[tuple[Path, str]]:
    folder = to / safe(label)
    if form == "atif":
        for one in told:
            yield to / trial_path(one.row.key).with_suffix(".atif.json"), _written("atif", one)
        return
    lines: dict[str, list[str]] = {}
    for one in told:
        if form == "alibaba":
            lines.setdefault(f"iter{one.row.rollout}.jsonl", []).append(_alibaba(one))
        else:
            about = {"id": str(one.row.key), "task_id": one.row.task, "rollout": one.row.rollout}
            lines.setdefault("messages.jsonl", []).append(json.dumps({**json.loads(_written("openai", one)), **about}))
    for name, found in lines.items():
        yield folder / name, "".join(line + "\n" for line in found)


def _alibaba(one: Told) -> str:
    """The line of a question, with its gold and, for a trial without an answer, why."""
    value: dict[str, JsonValue] = json.loads(_written("alibaba", one).splitlines()[0])
    value |= {"question": one.task.question, "answer": one.task.gold, "rollout_id": one.row.rollout}
    return json.dumps(value)


def messages(one: Told) -> list[dict[str, JsonValue]]:
    """The trial as OpenAI messages."""
    found: list[dict[str, JsonValue]] = json.loads(_written("openai", one))["messages"]
    return found


def _written(form: Literal["alibaba", "openai", "atif"], one: Told) -> str:
    asked = (Question(1, one.task.prompt, 1, 0.0),)
    head = Head(str(one.row.key), one.row.status, one.model, asked, {}, one.row.usage, len(one.steps))
    return asyncio.run(_joined(WRITERS[form](head, _each(one.steps))))


async def _each(steps: Sequence[Step]) -> AsyncIterator[Step]:
    for step in steps:
        yield step


async def _joined(pieces: AsyncIterator[str]) -> str:
    return "".join([piece async for piece in pieces])


def _told(job: ExportJob, label: str) -> Iterator[Told]:
    tasks = job.tally.tasks()
    trials = next(each for each in job.tally.trials if each.label == label)
    variants = {variant.label: variant.tree() for variant in job.plan.variants}
    backbone = variants.get(label, {}).get("backbone")
    model = str(backbone.get("model") or backbone.get("kind")) if isinstance(backbone, dict) else ""
    for row in trials.rows:
        if not row.finished:
            continue
        task = tasks[row.task]
        sealer = Sealer.of(task, job.tally.dataset, private=job.tally.benchmark.private)
        steps = job.trails.steps(row, sealer)
        clean = (redacted_step(replace(step, task=1), job.redact) for step in steps)
        grade = trials.grades[row.key].grade if row.key in trials.grades else ""
        yield Told(
            _sealed_task(task, sealer),
            replace(row, answer=sealer.seal(job.redact(row.answer)), message=sealer.seal(job.redact(row.message))),
            tuple(sealed_step(step, sealer) for step in clean),
            model,
            trials.measures[row.key],
            grade,
        )


def _sealed_task(task: Task, sealer: Sealer) -> Task:
    return replace(
        task,
        question=sealer.seal(task.question),
        prompt=sealer.seal(task.prompt),
        golds=tuple(map(sealer.seal, task.golds)),
    )


def sealed_step(step: Step, sealer: Sealer) -> Step:
    """Every text of a step sealed; names of tools and errors stay."""
    if not sealer.password:
        return step

    def sealed(value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return sealer.seal(value)
        if isinstance(value, list):
            return [sealed(item) for item in value]
        if isinstance(value, dict):
            return {key: sealed(item) for key, item in value.items()}
        return value

    return replace(
        step,
        thought=sealer.seal(step.thought),
        answer=sealer.seal(step.answer),
        question=sealer.seal(step.question),
        calls=tuple(
            ToolCall(call.id, call.name, {key: sealed(value) for key, value in call.arguments.items()})
            for call in step.calls
        ),
        observations=tuple(_sealed_observation(item, sealer) for item in step.observations),
    )


def _sealed_observation(item: Observation, sealer: Sealer) -> Observation:
    sources = tuple(Source(sealer.seal(source.url), sealer.seal(source.title)) for source in item.sources)
    return replace(item, text=sealer.seal(item.text), sources=sources, refs=())
