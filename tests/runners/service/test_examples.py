"""The examples, in the real frameworks, against a scripted model and a real service; and with the service dead."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memory.encoders.hashing import HashingEncoder
from memory.records import Reply, ToolCall
from memory.tokens import ScriptCounter
from runners.devserver.model_server import ModelServer, WireRequest
from runners.service.client import SelectClient
from runners.service.messages import PACMSSelector, text_of
from runners.service.selecting import Selector
from tests.runners.service.serving import running

FOLDER = Path(__file__).parents[3] / "examples"
QUESTION = "What did the harbour of Varden cost?"
FACT = "The harbour of Varden did cost 2000 crowns."
SEARCHES = 12
BUDGET = 700


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # frameworks look their annotations up there
    spec.loader.exec_module(module)
    return module


def page(query: str) -> str:
    """What the tool gives back: the fact at the third search, else nothing of use."""
    return FACT if query == "3" else f"page {query} " + f"about lunch, weather and tide {query} " * 12


class Model:
    """Searches `SEARCHES` times, then answers with what it can see of the fact."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, request: WireRequest) -> Reply:
        messages: Any = request.body["messages"]
        self.sizes.append(sum(6 + ScriptCounter().count(text_of(one)[0]) for one in messages))
        calls = {call["id"] for one in messages for call in one.get("tool_calls") or ()}
        results = {one["tool_call_id"] for one in messages if one["role"] == "tool"}
        assert calls == results, "a call and its result stand or fall together"
        assert any(one["role"] == "user" and QUESTION in json.dumps(one) for one in messages)
        turn = len(self.sizes)
        if turn <= SEARCHES:
            return Reply("", tool_calls=(ToolCall(f"t{turn}", "search", {"query": str(turn)}),))
        return Reply("2000 crowns" if FACT in json.dumps(messages) else "not known")


@pytest.fixture(params=["service", "dead"])
def through(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SelectClient]:
    if request.param == "dead":
        with SelectClient("http://127.0.0.1:9", window_s=60) as client:
            yield client
        return
    with running(tmp_path) as one, SelectClient(one.url, deadline_s=20) as client:
        yield client


def check(model: Model, answer: str, through: SelectClient) -> None:
    """The same number of steps whether or not there is a service; the old fact is found again only with one."""
    assert len(model.sizes) == SEARCHES + 1
    assert max(model.sizes) <= BUDGET
    assert answer == ("not known" if through._unreported else "2000 crowns")


def test_a_plain_loop(through: SelectClient) -> None:
    from openai import OpenAI

    model = Model()
    with ModelServer(model) as server, OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        answer = example("plain_loop").run(client, QUESTION, PACMSSelector(through, BUDGET), {"search": page})
    check(model, answer, through)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_langgraph(through: SelectClient) -> None:
    pytest.importorskip("langgraph", reason="NO HOSTS: the extra hosts is not installed")
    pytest.importorskip("langchain_openai", reason="NO HOSTS: the extra hosts is not installed")
    from langchain_core.tools import tool

    @tool
    def search(query: str) -> str:
        """Search the archive."""
        return page(query)

    model = Model()
    with ModelServer(model) as server:
        agent = example("langgraph_agent").make_agent(f"{server.url}/v1", PACMSSelector(through, BUDGET), [search])
        ended = agent.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 100})
    check(model, ended["messages"][-1].content, through)
    assert len(ended["messages"]) == 2 + 2 * SEARCHES, "the graph keeps all of them"


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_openai_agents(through: SelectClient) -> None:
    pytest.importorskip("agents", reason="NO HOSTS: the extra hosts is not installed")
    from agents import function_tool

    @function_tool
    def search(query: str) -> str:
        """Search the archive."""
        return page(query)

    model = Model()
    with ModelServer(model) as server:
        fit = PACMSSelector(through, BUDGET - 20)  # the instructions are no item of the input
        answer = await example("openai_agents").run(f"{server.url}/v1", QUESTION, fit, [search])
    check(model, answer, through)


def test_the_code_of_the_documentation_runs() -> None:
    page = (FOLDER.parent / "docs" / "embedding.md").read_text("utf-8")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert names["messages"][0]["role"] == "user"


class Host:
    """A host of the contract: it owns the transcript, compacts when the engine's context overflows, and goes on."""

    def __init__(self, through: SelectClient, budget: int) -> None:
        self.engine = example("openclaw_engine").Engine(through, self.compact)
        self.budget = budget
        self.messages: list[dict[str, Any]] = []
        self.compactions = 0

    def compact(self, *, sessionId: str, force: bool = False) -> dict[str, bool]:
        self.compactions += 1
        self.messages = [{"role": "user", "content": self.messages[-1]["content"][:400]}]
        return {"ok": True, "compacted": True}

    def turn(self, text: str) -> list[dict[str, Any]]:
        message = {"role": "user", "content": text}
        self.messages.append(message)
        assert self.engine.ingest(sessionId="s", message=message) == {"ingested": True}
        built = self.engine.assemble(sessionId="s", messages=self.messages, tokenBudget=self.budget)
        if built["estimatedTokens"] > self.budget:
            assert not self.engine.info["ownsCompaction"]
            assert self.engine.compact(sessionId="s", force=True)["compacted"]
            built = self.engine.assemble(sessionId="s", messages=self.messages, tokenBudget=self.budget)
        assert built["estimatedTokens"] <= self.budget
        self.messages.append({"role": "assistant", "content": f"noted: {text[:20]}"})
        kept: list[dict[str, Any]] = built["messages"]
        return kept


def test_an_engine_of_openclaws_contract(through: SelectClient) -> None:
    host = Host(through, 300)
    host.turn(FACT)
    for number in range(20):
        host.turn(page(f"x{number}"))
    assert host.compactions == 0
    seen = host.turn(QUESTION)
    if not through._unreported:
        assert any(FACT in one["content"] for one in seen)
    host.turn("much too long " * 400)
    assert host.compactions == 1, "not even the newest fits: that is the host's to mend"


class Item:
    """A message as LangChain has them."""

    def __init__(self, kind: str, content: Any, **more: Any) -> None:
        self.type, self.content = kind, content
        self.__dict__.update(more)


def test_messages_of_any_shape() -> None:
    fit = PACMSSelector(Selector(HashingEncoder(256)), 120, pinned=lambda one: getattr(one, "name", "") == "shot")
    old = [Item("ai", "lunch weather tide " * 6), Item("human", "tide lunch weather " * 6)] * 4
    call = Item("ai", "", tool_calls=[{"id": "t", "name": "search", "args": {"query": "harbour"}}])
    messages = [
        Item("system", "Be brief."),
        Item("human", "an example", name="shot"),
        *old[:4],
        call,
        Item("tool", [{"type": "text", "text": FACT}], tool_call_id="t"),
        *old[4:],
        Item("human", QUESTION),
    ]
    kept = fit(messages)
    assert kept[:2] == messages[:2] and kept[-1] is messages[-1]
    assert call in kept and kept[kept.index(call) + 1].type == "tool"
    assert sum(6 + ScriptCounter().count(text_of(one)[0]) for one in kept) <= 120
    assert fit(messages[-1:]) == messages[-1:]
    assert text_of({"content": [{"type": "image_url"}, "a", {"text": "b"}]}) == ("a\nb", 1)
    assert fit([]) == []


def test_a_memory_of_the_classic_protocol() -> None:
    memory = PACMSSelector(Selector(HashingEncoder(256)), 60)
    assert memory.load_memory_variables({"input": "x"}) == {"history": []}
    memory.save_context({"input": "Remember this."}, {"output": FACT})
    for number in range(10):
        memory.save_context({"input": f"lunch {number}"}, {"output": "weather and tide " * 3})
    held = memory.load_memory_variables({"input": QUESTION})["history"]
    assert {"role": "assistant", "content": FACT} in held and memory.memory_variables == ["history"]
    memory.clear()
    assert memory.load_memory_variables({"input": "x"})["history"] == []
