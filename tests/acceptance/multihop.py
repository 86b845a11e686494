"""The multi-hop questions and their pages as an offline web: loading, running, and the usual figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np

from agent.backbones.embedded import EmbeddedBackbone
from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from agent.events import Bus
from memory.plan import Context, ContextPlan, FittedPlan
from memory.records import Message, Step, ToolCall
from runners.bench.datasets.registry import benchmark, load
from runners.bench.tasks import Task
from runners.config import RunConfig, load_config
from runners.environment import Environment
from runners.folders import find_folder, new_folder
from runners.request import ConfigRequest
from runners.toolbox import Inputs, ToolboxRequest, open_toolbox
from runners.wiring import OpenSession, SessionRequest, open_session
from tools.search.corpus import LocalCorpus
from tools.toolset import Toolset

IDS = Path(__file__).parent / "multihop_ids.txt"


def pages_file(data: Path) -> Path:
    return data / "multihop" / "unified" / "pages.jsonl.gz"


def questions(data: Path) -> dict[str, Task]:
    """Every question by id, in the order of the file."""
    return {task.id: task for task in load(benchmark("multihop"), data / "multihop" / "unified", {}).tasks}


def chosen(data: Path) -> list[Task]:
    """The fixed fifty: drawn once at random, equal shares of the three sets as far as they go."""
    known = questions(data)
    return [known[line] for line in IDS.read_text("ascii").split()]


def config(*options: str) -> RunConfig:
    return load_config(ConfigRequest(options=options))


@asynccontextmanager
async def session(folder: Path, home: Path, data: Path, settings: RunConfig | None) -> AsyncIterator[OpenSession]:
    """A session over the pages; ``settings`` None opens an existing one."""
    inputs = Inputs(str(pages_file(data))) if settings is not None else None
    place = new_folder(home, folder) if settings is not None else find_folder(home, str(folder))
    request = SessionRequest(place, Environment(home), Bus(), settings, inputs)
    async with open_session(request) as opened:
        yield opened


def visited(steps: Sequence[Step]) -> set[str]:
    """Ids of the pages that these steps read."""
    found = [item for step in steps for item in step.observations if item.tool == "visit" and item.error is None]
    return {source.url.rpartition("/")[2] for item in found for source in item.sources}


class OneQuery:
    """The baseline: the question as one BM25 query, the top k pages read, the same extractive reader."""

    def __init__(self, corpus: LocalCorpus, toolset: Toolset) -> None:
        self._corpus = corpus
        self._toolset = toolset
        self._reader = EmbeddedBackbone()

    @classmethod
    @asynccontextmanager
    async def open(cls, home: Path, data: Path) -> AsyncIterator[OneQuery]:
        async with AsyncExitStack() as stack:
            corpus = LocalCorpus.open(str(pages_file(data)), home / "cache" / "corpora")
            request = ToolboxRequest(config(), Inputs(), Environment(home), provider=corpus, hosts=corpus.hosts)
            yield cls(corpus, await open_toolbox(request, stack))

    async def ask(self, question: str, pages: int) -> tuple[str, set[str]]:
        """Answer and ids of the pages read."""
        hits = await self._corpus.search(question, pages)
        steps = [await self._step(number, hit.url) for number, hit in enumerate(hits, 1)]
        dialect = GuidedDialect()
        form = dialect.step_format(self._toolset.specs)
        messages = [*form.preamble(question), *(message for step in steps for message in form.step(step))]
        last = len(steps) + 1
        request = dialect.request(context(messages, last), self._toolset.specs, Situation(last, last, steps_left=1))
        decision = dialect.parse(await self._reader.complete(request), last)
        return decision.answer, visited(steps)

    async def _step(self, number: int, url: str) -> Step:
        call = ToolCall(f"s{number}.0", "visit", {"urls": [url]})
        return Step(number, calls=(call,), observations=await self._toolset.run([call], step=number))


def context(messages: Sequence[Message], step: int) -> Context:
    """Messages as a context without old chunks."""
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
