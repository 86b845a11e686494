"""A plain agent loop over an OpenAI-compatible model, its context kept within a budget.

python examples/plain_loop.py http://127.0.0.1:8000/v1 "What did the harbour cost?"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from openai import OpenAI

from runners.service.client import SelectClient
from runners.service.messages import PACMSSelector

SEARCH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the archive.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


def run(
    model: OpenAI, question: str, fit: PACMSSelector, tools: Mapping[str, Callable[..., str]], steps: int = 50
) -> str:
    """Ask, run tools, ask again; before every call ``fit`` decides what the model sees."""
    messages: list[Any] = [{"role": "system", "content": "Answer from the archive."}]
    messages.append({"role": "user", "content": question})
    for _ in range(steps):
        reply = model.chat.completions.create(model="any", messages=fit(messages), tools=[SEARCH])  # type: ignore[list-item]
        said = reply.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return said.content or ""
        for call in said.tool_calls:
            assert call.type == "function"
            result = tools[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no answer"


if __name__ == "__main__":
    client = SelectClient()
    answer = run(
        OpenAI(base_url=sys.argv[1], api_key="none"),
        sys.argv[2],
        PACMSSelector(client, budget=8_000),
        {"search": lambda query: f"nothing is known of {query}"},
    )
    sys.stdout.write(answer + "\n")
    client.close()
