"""What happened in the question in force: read from its steps, so a resumed session knows as much as a running one."""

from __future__ import annotations

from collections.abc import Iterable

from agent.dialects.base import Situation
from memory.plan import Context
from memory.records import Level, Step

MAX_LISTED = 64
"""Listed URLs that a situation carries; the newest are kept."""


class Tracker:
    """Folds the steps of one question into a `Situation`."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._listed: dict[str, None] = {}
        self._visited: dict[str, None] = {}
        self._queries: dict[str, None] = {}
        self._files: dict[tuple[str, int], None] = {}
        self._glimpsed: dict[str, None] = {}
        self._last_tools: tuple[str, ...] = ()
        self._steps = 0
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Take one committed step into account."""
        self._steps += 1
        if step.calls:
            self._last_tools = tuple(call.name for call in step.calls)
        for call in step.calls:
            for key in ("query", "queries"):
                self._queries.update(dict.fromkeys(_texts(call.arguments.get(key))))
            if call.name == "parse_file":
                part = call.arguments.get("page", 1)
                number = part if isinstance(part, int) else 1
                self._files.update({(name, number): None for name in _texts(call.arguments.get("file"))})
            if call.name == "visit":
                for key in ("url", "urls"):
                    self._visited.update(dict.fromkeys(_texts(call.arguments.get(key))))
        for item in step.observations:
            if item.tool == "search":
                self._listed.update(dict.fromkeys(source.url for source in item.sources))
            elif item.tool == "visit":
                self._visited.update(dict.fromkeys(source.url for source in item.sources))
            self._glimpsed.update(dict.fromkeys(f"c{ref.chunk}" for ref in item.refs))

    def situation(self, context: Context, steps_left: int | None) -> Situation:
        """The situation at the step that ``context`` was built for."""
        listed = tuple(url for url in self._listed if url not in self._visited)
        return Situation(
            step=context.step,
            task_step=self._steps + 1,
            steps_left=steps_left,
            listed=listed[-MAX_LISTED:],
            visited=tuple(self._visited),
            queries=tuple(self._queries),
            files=tuple(self._files),
            compressed=compressed(context),
            glimpsed=tuple(self._glimpsed),
            last_tools=self._last_tools,
        )


def compressed(context: Context) -> tuple[str, ...]:
    """Ids of the old chunks that the context shows below FULL, or only inside a range."""
    below = context.fitted.folded | (context.fitted.levels < Level.FULL)
    return tuple(f"c{number}" for number in context.ids[below].tolist())


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
