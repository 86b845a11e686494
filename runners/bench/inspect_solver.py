"""Our agent as a solver of Inspect (extra ``inspect``): ``eval(task, solver=agent(policy="pace"))``, or on its command
line ``--solver PATH/inspect_solver.py@agent -S policy=pace``.

Nothing of ours imports this module. The model is the one of the eval, so that Inspect counts, limits and logs every
call; steps, memory and tools are ours.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolInfo, ToolParams

from agent.backbones.base import wire_id
from agent.events import Bus
from memory.records import Message, Reply, Request, StopReason, ToolCall, Usage
from runners.bench.planning import LOCKSTEP
from runners.config import load_config
from runners.environment import read_environment
from runners.folders import SessionFolder
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}


@solver(name="agent")  # type: ignore[untyped-decorator, unused-ignore]
def agent(policy: str = "pace", corpus: str | None = None, config: str | None = None, **options: Any) -> Solver:
    """A session a sample. ``corpus``: searched instead of the web; ``config``: a YAML file; ``options``: values such as
    ``memory.budget=32000`` (with ``__`` for the dot)."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        given = [f"{key.replace('__', '.')}={value}" for key, value in options.items()]
        asked = ("dialect=native", "backbone.kind=scripted", LOCKSTEP, *given)
        settings = load_config(ConfigRequest(None, policy, None, Path(config) if config else None, asked))
        environment = read_environment()
        with tempfile.TemporaryDirectory(prefix="longstride-") as scratch:
            request = SessionRequest(
                SessionFolder(Path(scratch)),
                environment,
                Bus(),
                settings,
                Inputs(corpus),
                backbone=InspectBackbone(get_model(), settings.backbone.window),
            )
            async with open_session(request) as opened:
                outcome = await opened.session.ask(state.input_text)
        state.metadata["longstride"] = {"status": outcome.status, "steps": outcome.steps, "message": outcome.message}
        state.output = ModelOutput.from_content(str(state.model), outcome.answer)
        state.messages.append(ChatMessageAssistant(content=outcome.answer, model=str(state.model)))
        return state

    return solve


class InspectBackbone:
    """Inspect's model as a backbone. Its faults are Inspect's own: they end the sample as they would without us."""

    def __init__(self, model: Model, window: int) -> None:
        self._model = model
        self.name = "inspect"
        self.model = str(model)
        self.window = window
        self.supports_tools = True
        self.supports_schema = False
        self.supports_images = False

    async def complete(self, request: Request) -> Reply:
        tools = [
            ToolInfo(name=spec.name, description=spec.description, parameters=ToolParams(**dict(spec.parameters)))
            for spec in request.tools
        ]
        config = GenerateConfig(
            max_tokens=request.max_output_tokens,
            stop_seqs=list(request.stop) or None,
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
        )
        output = await self._model.generate([_message(item) for item in request.messages], tools=tools, config=config)
        calls = tuple(
            ToolCall(call.id, call.function, dict(call.arguments)) for call in output.message.tool_calls or ()
        )
        return Reply(
            text=output.message.text,
            tool_calls=calls,
            stop_reason=_STOPS.get(output.stop_reason, "end"),
            usage=_usage(output),
        )

    async def aclose(self) -> None:
        """The model is Inspect's."""


def _message(item: Message) -> ChatMessage:
    if item.role == "system":
        return ChatMessageSystem(content=item.content)
    if item.role == "tool":
        return ChatMessageTool(content=item.content, tool_call_id=wire_id(item.tool_call_id))
    if item.role == "user":
        return ChatMessageUser(content=item.content)
    calls = [
        InspectCall(id=wire_id(call.id), function=call.name, arguments=dict(call.arguments)) for call in item.tool_calls
    ]
    return ChatMessageAssistant(content=item.content, tool_calls=calls or None)


def _usage(output: ModelOutput) -> Usage:
    if output.usage is None:
        return Usage()
    used = output.usage
    # Inspect's input leaves cached tokens out, ours has them in
    read, written = used.input_tokens_cache_read, used.input_tokens_cache_write
    return Usage(
        input_total=used.input_tokens + (read or 0) + (written or 0),
        cache_read=read,
        cache_write=written,
        output=used.output_tokens,
        reasoning=used.reasoning_tokens,
    )
