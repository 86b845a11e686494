"""A LangGraph agent whose model sees what matters for the newest question; the graph keeps the whole history.

python examples/langgraph_agent.py http://127.0.0.1:8000/v1 "What did the harbour cost?"
"""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import SecretStr

from runners.service.client import SelectClient
from runners.service.messages import PACMSSelector


@tool
def search(query: str) -> str:
    """Search the archive."""
    return f"nothing is known of {query}"


def make_agent(base_url: str, fit: PACMSSelector, tools: list[Any]) -> Any:
    """The compiled graph: model, tools, model, …"""
    chat = ChatOpenAI(model="any", base_url=base_url, api_key=SecretStr("none"), max_retries=0).bind_tools(tools)

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [chat.invoke(fit(state["messages"]))]}

    def after(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", after)
    graph.add_edge("tools", "think")
    return graph.compile()


if __name__ == "__main__":
    client = SelectClient()
    agent = make_agent(sys.argv[1], PACMSSelector(client, budget=8_000), [search])
    ended = agent.invoke({"messages": [("user", sys.argv[2])]}, {"recursion_limit": 100})
    sys.stdout.write(f"{ended['messages'][-1].content}\n")
    client.close()
