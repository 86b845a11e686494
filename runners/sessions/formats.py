"""A session in the formats of others: each a stream of text, written while the steps are read.

What a format cannot say is left out; what every one keeps is thought, calls with their arguments, results and answers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, TypeAlias

from memory.records import JsonValue, Observation, Step, ToolCall, Usage
from runners.sessions.content import Head
from runners.trajectory import step_row

ATIF = "ATIF-v1.7"
Format: TypeAlias = Literal["jsonl", "alibaba", "openai", "atif", "tar"]
Writer: TypeAlias = Callable[[Head, AsyncIterator[Step]], AsyncIterator[str]]


async def own(head: Head, steps: AsyncIterator[Step]) -> AsyncIterator[str]:
    """A line per step, as in ``trajectory.jsonl``; ``asked`` on the first step of each question."""
    task = None
    async for step in steps:
        row = step_row(step)
        if step.task != task:
            task = step.task
            row["asked"] = head.question(task)
        yield _json(row) + "\n"


async def openai(head: Head, steps: AsyncIterator[Step]) -> AsyncIterator[str]:
    """One line: ``{"messages": [...]}``, the chat form that fine-tuning and most tools take."""
    yield '{"messages": ['
    between, task = "", None
    async for step in steps:
        messages: list[dict[str, JsonValue]] = []
        if step.task != task:
            task = step.task
            messages.append({"role": "user", "content": head.question(task)})
        for message in [*messages, *_chat(step)]:
            yield between + _json(message)
            between = ", "
    yield "]}\n"


def _chat(step: Step) -> list[dict[str, JsonValue]]:
    """Calls get their own results; what the session itself said is a user message."""
    if step.kind == "answer":
        return [{"role": "assistant", "content": step.answer}]
    said: dict[str, JsonValue] = {"role": "assistant", "content": step.thought}
    if step.calls:
        said["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _json(dict(c.arguments))}}
            for c in step.calls
        ]
    results, notes = _results(step)
    answers: list[dict[str, JsonValue]] = [
        {"role": "tool", "tool_call_id": call.id, "content": seen.text if seen else ""} for call, seen in results
    ]
    asides: list[dict[str, JsonValue]] = [{"role": "user", "content": note.text} for note in notes]
    return [said, *answers, *asides]


async def alibaba(head: Head, steps: AsyncIterator[Step]) -> AsyncIterator[str]:
    """A line per question: ``question, answer, messages, prediction, termination``, one call a message."""
    task, answer = None, ""
    async for step in steps:
        if step.task != task:
            if task is not None:
                yield _alibaba_end(answer, head.status)
            task, answer = step.task, ""
            question = head.question(task)
            yield f'{{"question": {_json(question)}, "answer": "", "messages": ['
            yield _json({"role": "user", "content": question})
        for message in _tagged(step):
            yield ", " + _json(message)
        answer = step.answer or answer
    if task is not None:
        yield _alibaba_end(answer, head.status)


def _alibaba_end(answer: str, status: str) -> str:
    return f'], "prediction": {_json(answer)}, "termination": {_json("answer" if answer else status)}}}\n'


def _tagged(step: Step) -> list[dict[str, JsonValue]]:
    think = f"<think>{step.thought}</think>\n" if step.thought else ""
    if step.kind == "answer":
        return [{"role": "assistant", "content": f"{think}<answer>{step.answer}</answer>"}]
    results, notes = _results(step)
    messages: list[dict[str, JsonValue]] = []
    for call, seen in results:
        messages.append({"role": "assistant", "content": f"{think}<tool_call>\n{_tool_call(call)}\n</tool_call>"})
        text = "\n".join([seen.text if seen else "", *(note.text for note in notes)])
        messages.append({"role": "user", "content": f"<tool_response>\n{text}\n</tool_response>"})
        think, notes = "", []
    if not results:
        text = "\n".join(note.text for note in notes)
        messages += [{"role": "assistant", "content": think}, {"role": "user", "content": text}]
    return messages


def _tool_call(call: ToolCall) -> str:
    arguments = dict(call.arguments)
    code = arguments.get("code")
    if isinstance(code, str) and code and code == code.strip() and "<" + "/code>" not in code:
        del arguments["code"]
        return f"{_json({'name': call.name, 'arguments': arguments}, readable=True)}\n<code>\n{code}\n</code>"
    return _json({"name": call.name, "arguments": arguments}, readable=True)


async def atif(head: Head, steps: AsyncIterator[Step]) -> AsyncIterator[str]:
    """One ATIF trajectory (Agent Trajectory Interchange Format)."""
    agent: dict[str, JsonValue] = {"name": "longstride", "version": _version()}
    if head.model:
        agent["model_name"] = head.model
    start: dict[str, JsonValue] = {
        "schema_version": ATIF,
        "session_id": head.name,
        "trajectory_id": head.name,
        "agent": agent,
    }
    yield f'{_json(start)[:-1]}, "steps": ['
    number, task = 0, None
    async for step in steps:
        rows: list[dict[str, JsonValue]] = []
        if step.task != task:
            task = step.task
            rows.append({"source": "user", "message": head.question(task)})
        for row in [*rows, _atif_step(step, head)]:
            yield (", " if number else "") + _json({"step_id": number + 1, **row})
            number += 1
    yield f'], "final_metrics": {_json({**_metrics(head.total, "total_"), "total_steps": number})}}}\n'


def _atif_step(step: Step, head: Head) -> dict[str, JsonValue]:
    row: dict[str, JsonValue] = {"source": "agent", "message": step.answer}
    if step.created:
        row["timestamp"] = datetime.fromtimestamp(step.created, UTC).isoformat()
    if step.thought:
        row["reasoning_content"] = step.thought
    if step.calls:
        row["tool_calls"] = [
            {"tool_call_id": c.id, "function_name": c.name, "arguments": dict(c.arguments)} for c in step.calls
        ]
    if step.observations:
        row["observation"] = {
            "results": [
                {**({"source_call_id": item.call_id} if item.call_id else {}), "content": item.text}
                for item in step.observations
            ]
        }
    if metrics := _metrics(head.usage.get(step.number, Usage())):
        row["metrics"] = metrics
    row["extra"] = {"chunk": step.chunk_id, "kind": step.kind, "interrupted": step.interrupted}
    return row


def _metrics(usage: Usage, prefix: str = "") -> dict[str, JsonValue]:
    figures: dict[str, int | float | None] = {
        f"{prefix}prompt_tokens": usage.input_total,
        f"{prefix}completion_tokens": usage.output,
        f"{prefix}cached_tokens": usage.cache_read,
        f"{prefix}cost_usd": usage.cost,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _results(step: Step) -> tuple[list[tuple[ToolCall, Observation | None]], list[Observation]]:
    """Calls with what they gave, and what answers no call."""
    seen = {item.call_id: item for item in step.observations if item.call_id}
    ids = {call.id for call in step.calls}
    return [(call, seen.get(call.id)) for call in step.calls], [o for o in step.observations if o.call_id not in ids]


def _version() -> str:
    try:
        return version("longstride")
    except PackageNotFoundError:
        return "0"


def _json(value: Mapping[str, JsonValue] | JsonValue, *, readable: bool = False) -> str:
    # ASCII, so that no text of a page can break the encoding of the file; inside a text it is escaped once more anyway
    return json.dumps(value, ensure_ascii=not readable)


WRITERS: Mapping[str, Writer] = {"jsonl": own, "alibaba": alibaba, "openai": openai, "atif": atif}
SUFFIXES: Mapping[str, str] = {
    "jsonl": ".jsonl",
    "alibaba": ".alibaba.jsonl",
    "openai": ".messages.jsonl",
    "atif": ".atif.json",
    "tar": ".tar",
}
