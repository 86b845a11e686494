"""ATIF v1.x (Agent Trajectory Interchange Format, Harbor): steps by source, tool calls with their results."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic import JsonValue as AnyJson

from memory.ingest import clean_step
from memory.records import Observation, Step, ToolCall
from memory.sanitize import sanitize
from memory.stored import Question
from runners.replay.readers.actions import FINAL_ACTIONS, sources_of
from runners.replay.recording import Recording


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    tool_call_id: str
    function_name: str
    arguments: dict[str, AnyJson] = Field(default_factory=dict)


class _Result(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    source_call_id: str | None = None
    content: Any = ""


class _Observation(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    results: list[_Result] = Field(default_factory=list)


class _Step(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    step_id: int
    source: str
    message: Any = ""
    reasoning_content: str | None = ""
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    is_copied_context: bool | None = None

    @field_validator("source")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("system", "user", "agent"):
            raise ValueError(f"unknown source {value!r}: system, user or agent")
        return value


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: str
    session_id: str | None = ""
    trajectory_id: str | None = ""
    steps: list[_Step] = Field(min_length=1)

    @field_validator("schema_version")
    @classmethod
    def _ours(cls, value: str) -> str:
        if not value.startswith("ATIF-v1."):
            raise ValueError(f"{value!r}: ATIF-v1.x expected")
        return value


def read(value: object, family: str) -> Recording:
    """A recording from a decoded trajectory. Raises ValidationError, or ValueError where no agent step is.

    A user message is a question, or a further one; messages that follow each other are one.
    """
    run = _Run.model_validate(value)
    given = [step for step in run.steps if not step.is_copied_context]
    system = "\n".join(text_of(step.message) for step in given if step.source == "system")
    steps: list[Step] = []
    questions: list[Question] = []
    for item in given:
        if item.source == "user":
            text = sanitize(text_of(item.message))
            start = len(steps) + 1
            if questions and questions[-1].from_step == start:
                last = questions.pop()
                text = f"{last.text}\n{text}"
            questions.append(Question(len(questions) + 1, text, start, 0.0))
        elif item.source == "agent":
            steps.append(clean_step(_step(item, len(steps) + 1, max(1, len(questions)))))
    if not steps:
        raise ValueError("steps: no step of the agent")
    questions = [q for q in questions if q.from_step <= len(steps)]
    if not questions or questions[0].from_step > 1:
        questions.insert(0, Question(0, "", 1, 0.0))
    name = run.trajectory_id or run.session_id or "atif"
    return Recording(name, family, tuple(steps), tuple(questions), sanitize(system))


def text_of(message: object) -> str:
    """A message's text: a string, or the text parts of a list."""
    if isinstance(message, str):
        return message
    if isinstance(message, list):
        parts = [part.get("text", "") if isinstance(part, dict) else str(part) for part in message]
        return "\n".join(str(part) for part in parts if part)
    return "" if message is None else str(message)


def _step(given: _Step, number: int, task: int) -> Step:
    thought, said = given.reasoning_content or "", text_of(given.message)
    calls = given.tool_calls or []
    results = given.observation.results if given.observation else []
    if not calls and not results:
        return Step(number, "answer", thought=thought, answer=said, task=task)
    if len(calls) == 1 and calls[0].function_name.lower() in FINAL_ACTIONS:
        answer = "\n".join(item for item in calls[0].arguments.values() if isinstance(item, str))
        return Step(number, "answer", thought="\n".join(filter(None, (thought, said))), answer=answer, task=task)
    made = tuple(ToolCall(f"s{number}.{at}", call.function_name, call.arguments) for at, call in enumerate(calls))
    ids = {call.tool_call_id: ours for call, ours in zip(calls, made, strict=True)}
    seen = []
    for at, result in enumerate(results):
        call = ids.get(result.source_call_id or "") or (made[at] if at < len(made) else None)
        tool, arguments = (call.name, call.arguments) if call else ("note", {})
        seen.append(Observation(call.id if call else "", tool, text_of(result.content), sources=sources_of(arguments)))
    thought = "\n".join(part for part in (thought, said) if part)
    return Step(number, thought=thought, calls=made, observations=tuple(seen), task=task)
