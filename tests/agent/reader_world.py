"""A small invented web and a loop over it, for tests of the guided dialect and the embedded backbone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.backbones.embedded import EmbeddedBackbone
from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from agent.dialects.legal import violation
from memory.plan import Context, ContextPlan, FittedPlan
from memory.records import Message, Observation, Request, Source, Step, ToolCall, ToolSpec

TOOLS = (
    ToolSpec("search", "Find pages.", {"properties": {"queries": {}}}),
    ToolSpec("visit", "Read a page.", {"properties": {"urls": {}, "goal": {}}}),
    ToolSpec("glimpse", "See an old step.", {"properties": {"chunk_id": {}}}),
)
PAGES = {
    "The Salt Road (film)": "The Salt Road is a 1961 Norwegian film directed by Ingrid Solvang, starring Per Lie.",
    "Ingrid Solvang": (
        "Ingrid Solvang (4 May 1919 – 12 March 1988) was a Norwegian film director. She was born in Bodø. "
        "She died in Lisbon."
    ),
    "Winter Harbour": "Winter Harbour is a 1975 Portuguese comedy film directed by Duarte Quintela.",
    "Duarte Quintela": "Duarte Quintela (born 1 June 1931 in Faro) is a Portuguese film director and painter.",
    "Bodø": "Bodø is a town in Norway. Its harbour is open all winter.",
    "Harbour seal": "The harbour seal is a true seal found along coastlines.",
    "Lisbon": "Lisbon is the capital of Portugal.",
    "tidy.sort": (
        "tidy.sort, a function of the module tidy.\n\nsort(rows, reverse=False, limit=250)\n"
        "    Return a new list of the rows in order.\n\n    Raises TidyError when a row is empty."
    ),
}


def url_of(title: str) -> str:
    return "http://corpus.local/" + re.sub(r"\W+", "_", title)


def context_of(messages: Sequence[Message], step: int) -> Context:
    none = np.zeros(0, dtype=np.int8)
    return Context(
        step=step,
        messages=tuple(messages),
        tokens=0,
        budget=1,
        plan=ContextPlan(none, np.zeros(0)),
        fitted=FittedPlan(none, np.zeros(0, dtype=np.bool_), None, 0, 0),
        ids=np.zeros(0, dtype=np.int64),
        render_hash="",
        tokens_by_level=(0, 0, 0, 0),
        counts_by_level=(0, 0, 0, 0),
        recent_tokens=0,
        fixed_tokens=0,
    )


def request_of(
    dialect: GuidedDialect, question: str, steps: Sequence[Step], situation: Situation, history: str = ""
) -> Request:
    form = dialect.step_format(TOOLS)
    messages = list(form.preamble(question))
    if history:
        messages.append(form.history(history))
    for step in steps:
        messages.extend(form.step(step))
    return dialect.request(context_of(messages, situation.step), TOOLS, situation)


@dataclass
class World:
    """Runs one question at a time; checks every reply against the schema it was asked with."""

    pages: dict[str, str] = field(default_factory=lambda: dict(PAGES))
    backbone: EmbeddedBackbone = field(default_factory=EmbeddedBackbone)
    steps: list[Step] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    async def ask(self, question: str, max_steps: int = 20) -> str:
        dialect = GuidedDialect()
        listed: list[str] = []
        first = len(self.steps)
        while True:
            number = len(self.steps) + 1
            done = self.steps[first:]
            situation = Situation(
                step=number,
                task_step=number - first,
                steps_left=max_steps - len(done),
                listed=tuple(url for url in listed if url not in self.visited),
                visited=tuple(self.visited),
                queries=tuple(self.queries),
                last_tools=tuple(call.name for call in done[-1].calls) if done else (),
            )
            request = request_of(dialect, question, self.steps, situation)
            reply = await self.backbone.complete(request)
            self.replies.append(reply.text)
            decision = dialect.parse(reply, number)
            assert request.schema is not None
            if decision.answer:
                self.steps.append(Step(number, "answer", answer=decision.answer, question=question))
                return decision.answer
            call = decision.calls[0]
            action = {"action": call.name, **call.arguments}
            assert not violation(action, request.schema)
            observation = self.search(call) if call.name == "search" else self.visit(call)
            listed.extend(source.url for source in observation.sources if call.name == "search")
            self.steps.append(Step(number, "act", decision.thought, decision.calls, (observation,)))

    def search(self, call: ToolCall) -> Observation:
        lines: list[str] = []
        sources: list[Source] = []
        queries = call.arguments["queries"]
        assert isinstance(queries, list)
        for query in queries:
            assert isinstance(query, str)
            self.queries.append(query)
            words = set(re.findall(r"\w+", query.lower()))
            scored = []
            for title, text in self.pages.items():
                score = 3 * len(words & set(re.findall(r"\w+", title.lower())))
                score += len(words & set(re.findall(r"\w+", text.lower())))
                scored.append((-score, title))
            lines.append(f'Results for "{query}":')
            for rank, (score, title) in enumerate(sorted(scored)[:4], 1):
                if score:
                    lines.append(f"{rank}. [{title}]({url_of(title)})\n   {self.pages[title][:80]}")
                    sources.append(Source(url_of(title), title))
        return Observation(call.id, "search", "\n".join(lines), sources=tuple(sources))

    def visit(self, call: ToolCall) -> Observation:
        urls = call.arguments["urls"]
        assert isinstance(urls, list)
        url = str(urls[0])
        assert url not in self.visited
        self.visited.append(url)
        title = next(title for title in self.pages if url_of(title) == url)
        text = f"[{title}]({url})\n(whole page)\n\n{self.pages[title]}"
        return Observation(call.id, "visit", text, sources=(Source(url, title),))
