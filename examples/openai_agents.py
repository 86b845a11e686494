"""An agent of the OpenAI Agents SDK whose model input is kept within a budget by the SDK's own hook.

python examples/openai_agents.py http://127.0.0.1:8000/v1 "What did the harbour cost?"
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from agents.run import CallModelData, ModelInputData
from openai import AsyncOpenAI

from runners.service.client import SelectClient
from runners.service.messages import PACMSSelector


@function_tool
def search(query: str) -> str:
    """Search the archive."""
    return f"nothing is known of {query}"


async def run(base_url: str, question: str, fit: PACMSSelector, tools: list[Any]) -> str:
    """The agent's answer."""

    async def within_budget(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        # the client of a service blocks until its deadline at most: not on the loop
        kept = await asyncio.to_thread(fit, given.input)
        return ModelInputData(input=kept, instructions=given.instructions)

    async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as model:
        agent = Agent(
            name="archivist",
            instructions="Answer from the archive.",
            tools=tools,
            model=OpenAIChatCompletionsModel(model="any", openai_client=model),
        )
        config = RunConfig(call_model_input_filter=within_budget, tracing_disabled=True)
        ended = await Runner.run(agent, question, run_config=config, max_turns=50)
    return str(ended.final_output)


if __name__ == "__main__":
    client = SelectClient()
    answer = asyncio.run(run(sys.argv[1], sys.argv[2], PACMSSelector(client, budget=8_000), [search]))
    sys.stdout.write(answer + "\n")
    client.close()
