"""The normalised form: ``id, source, model, task, system, gold, prediction, status, steps[{thought, action, args,
observation}]``, one JSON object a line."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memory.ingest import clean_step
from memory.records import Observation, Step, ToolCall
from memory.sanitize import sanitize
from runners.replay.readers.actions import FINAL_ACTIONS, arguments_of, sources_of
from runners.replay.recording import Recording, single_question


class _Step(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    thought: str = ""
    action: str = ""
    args: Any = ""
    observation: str = ""

    @field_validator("thought", "action", "observation", mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: object) -> object:
        return "" if value is None else value


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str | int
    task: str | None = ""
    system: str | None = ""
    steps: list[_Step] = Field(min_length=1)


def read(value: object, family: str) -> Recording:
    """A recording from one decoded line. Raises pydantic's ValidationError."""
    run = _Run.model_validate(value)
    last = len(run.steps)
    steps = tuple(_step(step, number, number == last) for number, step in enumerate(run.steps, start=1))
    return Recording(str(run.id), family, steps, single_question(sanitize(run.task or "")), sanitize(run.system or ""))


def _step(given: _Step, number: int, last: bool) -> Step:
    if last and given.action.lower() in FINAL_ACTIONS:
        text = given.args if isinstance(given.args, str) and given.args.strip() else given.thought
        thought = given.thought if text != given.thought else ""
        return clean_step(Step(number, "answer", thought=thought, answer=text))
    if not given.action or (given.action == "message" and not given.args):
        notes = (Observation("", "note", given.observation),) if given.observation else ()
        return clean_step(Step(number, "note", thought=given.thought, observations=notes))
    name, arguments = arguments_of(given.action, given.args)
    call = ToolCall(f"s{number}.0", name, arguments)
    seen = Observation(call.id, name, given.observation, sources=sources_of(arguments))
    return clean_step(Step(number, thought=given.thought, calls=(call,), observations=(seen,)))
