"""What is replayed: a session as it happened, whoever recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory.records import Observation, Step, ToolCall
from memory.stored import Question


@dataclass(frozen=True, slots=True)
class Recording:
    """One session. ``steps`` are numbered from 1 without gaps, their texts storable; ``questions`` in order, the first
    in force from step 1; ``family`` is the set it belongs to (the folder of its file)."""

    id: str
    family: str
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    system: str = ""

    def question_at(self, step: int) -> Question:
        """The question in force when ``step`` is about to be taken."""
        return next(question for question in reversed(self.questions) if question.from_step <= step)


def chain(recordings: Iterable[Recording], name: str = "chain") -> Recording:
    """Several recordings as one session: their questions one after another, steps numbered through."""
    steps: list[Step] = []
    questions: list[Question] = []
    system, family = "", ""
    for recording in recordings:
        system, family = system or recording.system, family or recording.family
        shift, tasks = len(steps), len(questions)
        questions.extend(
            replace(question, task=tasks + question.task, from_step=shift + question.from_step)
            for question in recording.questions
        )
        steps.extend(renumbered(step, shift + step.number, tasks + step.task) for step in recording.steps)
    return Recording(name, family, tuple(steps), tuple(questions), system)


def renumbered(step: Step, number: int, task: int) -> Step:
    """The step at another place: call ids follow the number; glimpses are kept only where they still point right."""
    if number == step.number and task == step.task:
        return step
    names = {call.id: f"s{number}.{at}" for at, call in enumerate(step.calls)}
    shift = number - step.number
    return replace(
        step,
        number=number,
        task=task,
        calls=tuple(ToolCall(names[call.id], call.name, call.arguments) for call in step.calls),
        observations=tuple(_moved(item, names, shift) for item in step.observations),
    )


def _moved(item: Observation, names: dict[str, str], shift: int) -> Observation:
    refs = tuple(replace(ref, chunk=ref.chunk + shift, last=ref.last and ref.last + shift) for ref in item.refs)
    return replace(item, call_id=names.get(item.call_id, item.call_id), refs=refs)


def single_question(text: str) -> tuple[Question, ...]:
    """The questions of a recording that has one."""
    return (Question(1, text, 1, 0.0),)


def numbered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps numbered from 1 in the order given."""
    return tuple(renumbered(step, number, step.task) for number, step in enumerate(steps, start=1))
