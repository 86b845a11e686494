"""A run as an Inspect eval log, so that ``inspect view`` opens it (extra ``inspect``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from memory.records import JsonValue
from runners.bench.exports import Told, messages
from runners.bench.tally import Tally
from runners.errors import UsageFault

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample


def write_log(tally: Tally, label: str, told: Sequence[Told], path: Path) -> Path:
    """One log for one policy: a sample a trial, its rollout as the epoch. Raises UsageFault without the extra."""
    try:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats, write_eval_log
    except ImportError as fault:
        raise UsageFault("Inspect logs need inspect-ai", hint="pip install 'longstride[inspect]'") from fault
    if not told:
        raise UsageFault(f"{label}: no trial has a result yet")
    ended = [one.row.ended for one in told]
    started = min(one.row.ended - one.row.seconds for one in told)
    name = tally.benchmark.name
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=_time(started),
            task=f"longstride/{name}",
            task_id=f"{name}-{label}-{tally.dataset.hash[:12]}",
            run_id=f"{name}-{label}",
            solver=f"longstride/{label}",
            dataset=EvalDataset(
                name=name,
                samples=len({one.task.id for one in told}),
                sample_ids=list(dict.fromkeys(one.task.id for one in told)),
            ),
            model=told[0].model or "unknown",
            config=EvalConfig(epochs=max(one.row.rollout for one in told)),
            metadata={"policy": label, "dataset_sha256": tally.dataset.hash},
        ),
        results=_results(tally, told),
        stats=EvalStats(started_at=_time(started), completed_at=_time(max(ended))),
        samples=[_sample(one) for one in told],
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_eval_log(log, str(path))
    except OSError as fault:
        raise UsageFault(f"{path}: cannot be written: {fault}") from fault
    return path


def _results(tally: Tally, told: Sequence[Told]) -> Any:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    scores = []
    for measure in tally.measures:
        value = fmean(one.measures.get(measure, 0.0) for one in told)
        scores.append(EvalScore(name=measure, scorer=measure, metrics={"mean": EvalMetric(name="mean", value=value)}))
    return EvalResults(total_samples=len(told), completed_samples=len(told), scores=scores)


def _sample(one: Told) -> EvalSample:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    used = one.row.usage
    usage = ModelUsage(
        input_tokens=used.input_total or 0,
        output_tokens=used.output or 0,
        total_tokens=(used.input_total or 0) + (used.output or 0),
        input_tokens_cache_read=used.cache_read,
        input_tokens_cache_write=used.cache_write,
        reasoning_tokens=used.reasoning,
    )
    return EvalSample(
        id=one.task.id,
        epoch=one.row.rollout,
        input=one.task.prompt,
        target=list(one.task.golds) or "",
        messages=[_message(item) for item in messages(one)],
        output=ModelOutput.from_content(one.model or "unknown", one.row.answer),
        scores={
            name: Score(value=value, answer=one.row.answer, explanation=one.grade or None)
            for name, value in one.measures.items()
        },
        metadata={"status": one.row.status, "message": one.row.message, "steps": one.row.steps},
        model_usage={one.model or "unknown": usage},
        total_time=one.row.seconds,
        working_time=one.row.seconds,
    )


def _message(item: dict[str, JsonValue]) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser
    from inspect_ai.tool import ToolCall

    content = str(item.get("content") or "")
    if item["role"] == "user":
        return ChatMessageUser(content=content)
    if item["role"] == "tool":
        return ChatMessageTool(content=content, tool_call_id=str(item["tool_call_id"]))
    given: Any = item.get("tool_calls") or []
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=json.loads(call["function"]["arguments"]))
        for call in given
    ]
    return ChatMessageAssistant(content=content, tool_calls=calls or None)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
