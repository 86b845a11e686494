"""The jsonl of Alibaba's DeepResearch family: ``question, answer, messages, prediction, termination``.

Messages are plain chat: the model writes ``<think>…</think>``, then ``<tool_call>{json}</tool_call>`` (python carries
its source in ``<code>``) or ``<answer>…</answer>``; results come back as user messages in ``<tool_response>``.
"""

from __future__ import annotations

import re

import json_repair
from pydantic import BaseModel, ConfigDict, Field

from memory.ingest import clean_step
from memory.records import JsonValue, Observation, Step, ToolCall
from memory.sanitize import sanitize
from runners.replay.readers.actions import sources_of
from runners.replay.recording import Recording, single_question

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)
_THINK = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_CODE = re.compile(r"<code>(.*?)(?:</code>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>(.*?)(?:</tool_response>|\Z)", re.DOTALL)


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str
    content: str | None = ""


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str
    messages: list[_Message] = Field(min_length=1)
    prediction: str | None = ""
    rollout_id: str | int | None = None


def read(value: object, family: str) -> Recording:
    """A recording from one decoded line. Raises ValidationError, or ValueError where there is no step."""
    run = _Run.model_validate(value)
    system = next((m.content or "" for m in run.messages if m.role == "system"), "")
    steps: list[Step] = []
    messages = [m for m in run.messages if m.role != "system"]
    for at, message in enumerate(messages):
        if message.role != "assistant":
            continue
        after = messages[at + 1] if at + 1 < len(messages) else None
        response = after.content or "" if after is not None and after.role in ("user", "tool") else ""
        steps.append(clean_step(_step(message.content or "", response, len(steps) + 1)))
    if not steps:
        raise ValueError("messages: no assistant message")
    name = run.question[:60] if run.rollout_id is None else f"{run.question[:60]} #{run.rollout_id}"
    return Recording(name, family, tuple(steps), single_question(sanitize(run.question)), sanitize(system))


def _step(text: str, response: str, number: int) -> Step:
    thought = "\n".join(part.strip() for part in _THINK.findall(text))
    rest = _THINK.sub("", text)
    call = _CALL.search(rest)
    if call is None:
        answer = _ANSWER.search(rest)
        if answer is None and response:
            said = "\n".join(part for part in (thought, rest.strip()) if part)
            return Step(number, "note", thought=said, observations=(Observation("", "note", _plain(response)),))
        return Step(number, "answer", thought=thought, answer=(answer.group(1) if answer else rest).strip())
    name, arguments = _call(call.group(1))
    made = ToolCall(f"s{number}.0", name, arguments)
    seen = Observation(made.id, name, _plain(response), sources=sources_of(arguments))
    thought = "\n".join(part for part in (thought, rest[: call.start()].strip()) if part)
    return Step(number, thought=thought, calls=(made,), observations=(seen,))


def _call(body: str) -> tuple[str, dict[str, JsonValue]]:
    code = _CODE.search(body)
    head = body[: code.start()] if code else body
    value = json_repair.loads(head)
    name, arguments = "", {}
    if isinstance(value, dict):
        name = str(value.get("name", ""))
        given = value.get("arguments", {})
        arguments = {str(key): item for key, item in given.items()} if isinstance(given, dict) else {"input": given}
    if code:
        arguments["code"] = code.group(1).strip()
    return (name or "tool", arguments) if isinstance(value, dict) else ("tool", {"input": body.strip()})


def _plain(response: str) -> str:
    found = _RESPONSE.findall(response)
    return "\n".join(part.strip() for part in found) if found else response.strip()
