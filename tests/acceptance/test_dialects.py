"""The same twenty questions through every dialect and wire format: the same chunks, and a bill that is exact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.dialects.registry import dialect_names
from agent.dialects.tongyi import trained_call
from agent.events import Bus
from memory.records import Chunk, JsonValue, Reply, ToolCall, Usage
from runners.config import load_config
from runners.devserver.model_server import ModelServer
from runners.environment import Environment
from runners.folders import new_folder
from runners.request import ConfigRequest
from runners.toolbox import Inputs
from runners.wiring import SessionRequest, open_session

TOWNS = (  # noqa: SIM905
    "Alvik Borgund Cedarholt Dunmoor Eskdale Farnby Grensund Holmfirth Ingelby Jarnvik Kestrel Lindholm Marwick Norby "
    "Ostvik Penhallow Quarnford Rensvik Stavby Tornholt"
).split()
QUESTIONS = {f"When was the bridge of {town} built?": town for town in TOWNS}
PRICES = "prices:\n  scripted: {input: 3.0, cached_input: 0.3, output: 15.0}\n"
WAYS = [
    *((dialect, "openai") for dialect in dialect_names()),
    ("native", "responses"),
    ("native", "anthropic"),
    ("tongyi", "anthropic"),
    ("guided", "anthropic"),
]


@dataclass(frozen=True, slots=True)
class Act:
    """What the model does next, whatever the dialect."""

    name: str
    arguments: Mapping[str, JsonValue]

    @property
    def answer(self) -> str:
        return str(self.arguments["answer"])


def year(town: str) -> int:
    return 1700 + 7 * TOWNS.index(town)


def acts() -> list[Act]:
    """Search, visit, answer, for each question."""
    found = []
    for number, (question, town) in enumerate(QUESTIONS.items()):
        found.append(Act("search", {"queries": [f"bridge {town}"]}))
        found.append(Act("visit", {"urls": [f"http://corpus.local/{town.lower()}.md"], "goal": question}))
        found.append(Act("answer", {"answer": f"In {year(town)} [c{3 * number + 2}]."}))
    return found


def said(act: Act, dialect: str, wire: str, usage: Usage) -> Reply:
    """The reply of a model that speaks this dialect."""
    final = act.name == "answer"
    if dialect == "native":
        if final:
            return Reply(act.answer, usage=usage)
        return Reply("", tool_calls=(ToolCall("p", act.name, act.arguments),), usage=usage)
    if dialect in ("tongyi", "websailor"):
        name, arguments = trained_call(act.name, act.arguments)
        call = json.dumps({"name": name, "arguments": arguments})
        text = f"<answer>{act.answer}</answer>" if final else f"<tool_call>\n{call}\n</tool_call>"
        return Reply(text, usage=usage)
    if dialect == "react-text":
        text = f"Action: {act.name}\nAction Input: {json.dumps(dict(act.arguments))}"
        return Reply(f"Final Answer: {act.answer}" if final else text, usage=usage)
    fields = {"action": act.name, **act.arguments}
    if dialect == "guided-small":
        fields.pop("goal", None)  # there the question is the goal
        if final:
            fields["source"] = act.answer.partition("[")[2].partition("]")[0]
    if wire == "anthropic":
        return Reply("", tool_calls=(ToolCall("p", "reply", fields),), usage=usage)
    return Reply(json.dumps(fields), usage=usage)


def bill() -> list[Usage]:
    """What the server says of each call: uneven figures, so that a sum that is right by chance is unlikely."""
    return [Usage(input_total=1_000 + 13 * n, cache_read=17 * n, output=20 + n % 7) for n in range(3 * len(TOWNS))]


def facts(chunk: Chunk) -> tuple[object, ...]:
    """A chunk without the time of its making."""
    step = chunk.step
    calls = [(call.id, call.name, json.dumps(dict(call.arguments), sort_keys=True)) for call in step.calls]
    return (
        step.number, step.kind, step.task, step.thought, calls, step.observations, step.answer, step.question,
        chunk.placeholder, chunk.content_hash,
    )  # fmt: skip


async def run(folder: Path, corpus: Path, dialect: str, wire: str) -> tuple[list[tuple[object, ...]], Usage]:
    """Facts of all chunks, and what the session says that it used."""
    ledger = bill()
    script = [said(act, dialect, wire, usage) for act, usage in zip(acts(), ledger, strict=True)]
    home = folder / "home"
    home.mkdir(parents=True)
    (home / "prices.yaml").write_text(PRICES)
    with ModelServer(script) as server:
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        kind = "anthropic" if wire == "anthropic" else "openai"
        options = (
            f"backbone.base_url={url}", "backbone.model=scripted", f"dialect={dialect}", "search.results=1",
            f"backbone.api={'responses' if wire == 'responses' else 'chat'}", "python.enabled=false",
            "encoder.kind=hashing", "summaries.kind=off", "memory.budget=12000",
        )  # fmt: skip
        config = load_config(ConfigRequest(backbone=kind, options=options))
        request = SessionRequest(
            new_folder(home, folder / "session"), Environment(home), Bus(), config, Inputs(str(corpus))
        )
        async with open_session(request) as opened:
            for question, town in QUESTIONS.items():
                outcome = await opened.session.ask(question)
                assert (outcome.status, str(year(town)) in outcome.answer) == ("completed", True), outcome.message
                assert str(year(town)) in outcome.citations[0].quote
            chunks = await opened.store.chunks(range(1, opened.memory.steps + 1))
            return [facts(chunk) for chunk in chunks], outcome.usage


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("towns")
    for town in TOWNS:
        text = f"# {town}\n\nThe bridge of {town} was built in {year(town)}. It has {year(town) % 9 + 2} arches.\n"
        (folder / f"{town.lower()}.md").write_text(text)
    return folder


_known: dict[str, Sequence[tuple[object, ...]]] = {}


@pytest.mark.parametrize(("dialect", "wire"), WAYS)
async def test_the_same_chunks_and_an_exact_bill(tmp_path: Path, corpus: Path, dialect: str, wire: str) -> None:
    chunks, usage = await run(tmp_path, corpus, dialect, wire)
    first = _known.setdefault("first", chunks)
    assert len(chunks) == 60
    assert chunks == first
    ledger = bill()
    total, cached = sum(u.input_total or 0 for u in ledger), sum(u.cache_read or 0 for u in ledger)
    output = sum(u.output or 0 for u in ledger)
    assert (usage.input_total, usage.cache_read, usage.output) == (total, cached, output)
    assert usage.cost == pytest.approx((3.0 * (total - cached) + 0.3 * cached + 15.0 * output) / 1e6, abs=1e-9)
