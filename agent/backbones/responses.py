"""OpenAI Responses through the official SDK. Nothing is stored there: the context is ours and new at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent.backbones.chat_format import ChatAssembly
from agent.backbones.openai import OpenAIBackbone
from agent.backbones.replay import Replay
from agent.backbones.responses_format import ResponsesAssembly, response_input, response_schema, response_tool
from memory.records import Reply, Request

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

ENCRYPTED = "reasoning.encrypted_content"


class ResponsesBackbone(OpenAIBackbone):
    """As `OpenAIBackbone`, through ``/responses`` with ``store=False``.

    Encrypted reasoning is asked for and sent back with the newest calls (`agent.backbones.replay`); a model that has
    none refuses to be asked, and is not asked again. There are no stop strings and no presence penalty here.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._replay = Replay()

    def _assembly(self) -> ResponsesAssembly:
        return ResponsesAssembly()

    async def _stream(self, client: AsyncOpenAI, parameters: dict[str, Any]) -> AsyncStream[Any]:
        return cast("AsyncStream[Any]", await client.responses.create(**parameters))

    def _replied(self, assembly: ChatAssembly | ResponsesAssembly, reply: Reply) -> None:
        if isinstance(assembly, ResponsesAssembly):
            self._replay.keep(reply.tool_calls, assembly.replay())

    def _parameters(self, request: Request, base_url: str) -> dict[str, Any]:
        """Keyword arguments of the SDK's ``create``."""
        images = request.images if self.supports_images else ()
        replay = () if ENCRYPTED in self._refused else self._replay.of(request.messages)
        parameters: dict[str, Any] = {
            "model": self.model,
            "input": response_input(request.messages, images, replay),
            "max_output_tokens": self._cap(request),
            "store": False,
            "stream": True,
        }
        if ENCRYPTED not in self._refused:
            parameters["include"] = [ENCRYPTED]
        if request.task_key and "prompt_cache_key" not in self._refused:
            parameters["prompt_cache_key"] = request.task_key
        if request.tools:
            parameters["tools"] = [response_tool(tool) for tool in request.tools]
        if request.schema is not None and self.supports_schema:
            parameters["text"] = response_schema(request.schema)
        if self._effort:
            parameters["reasoning"] = {"effort": self._effort}
        for name in ("temperature", "top_p"):
            value = self._sampled(request, name)
            if value is not None and name not in self._refused:
                parameters[name] = value
        return parameters
