"""The backbone that needs no key, no network and no weights: the extractive reader. It is no language model.

It sees the rendered request and nothing else, so what a context policy hides from it, it does not know. A small
language model may read for it: the policy still looks for the pages, the model words the answer from the passages.
"""

from __future__ import annotations

import asyncio
import json

from agent.backbones.extractive.decision import decide
from agent.backbones.extractive.scene import read_scene
from agent.errors import BadRequest
from memory.ports import TokenCounter
from memory.records import Reply, Request, Usage
from memory.tokens import ScriptCounter


class EmbeddedBackbone:
    """`agent.backbones.base.Backbone`. Deterministic; costs nothing; usage is counted by ``counter``.

    It acts by the legal actions of `Request.schema` (the `guided` dialect) and refuses a request without one.
    """

    name = "embedded"
    model = "extractive (no LLM)"
    window = 1_000_000
    supports_schema = True
    supports_tools = False
    supports_images = False

    def __init__(self, counter: TokenCounter | None = None) -> None:
        self._counter = counter or ScriptCounter()

    async def complete(self, request: Request) -> Reply:
        """One action as JSON text. Raises BadRequest without a schema."""
        return await asyncio.to_thread(self._complete, request)

    async def aclose(self) -> None:
        return None

    def _complete(self, request: Request) -> Reply:
        if not request.schema:
            raise BadRequest(
                "the extractive reader acts by a schema of legal actions, and the request has none",
                hint="use it with the guided dialect, or configure a language model",
            )
        text = json.dumps(decide(read_scene(request)), ensure_ascii=False)
        count = self._counter.count
        spent = sum(count(message.content) for message in request.messages)
        return Reply(text, usage=Usage(input_total=spent, output=count(text), cost=0.0))
