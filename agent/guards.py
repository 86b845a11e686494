"""Loop guards: the same action again and again is noted, then objected to, then stopped.

An action is the tool names and arguments of a step. Another page, part, find or query is another action, so reading on
never counts. Repeats count while the run does nothing new: one action alone, two in any alternation (A-B-A-B), or
three or four in a cycle. An action in between that was not part of the pattern starts the count anew.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence

from agent.errors import Stop
from memory.records import JsonValue, Step, ToolCall

NOTE_AT = 3
CHANGE_AT = 6
STOP_AT = 10
LOOKBACK = 48
"""Actions that are remembered: enough for the longest cycle to be stopped."""
_CYCLES = (3, 4)
_DEFAULTS: tuple[JsonValue, ...] = (None, "", 1)
"""A page or part that may as well be left out."""


class Guards:
    """Watches the actions of the question in force. All state comes from its steps: see `rebuild`."""

    def __init__(self) -> None:
        self._actions: deque[str] = deque(maxlen=LOOKBACK)
        self._results: deque[int] = deque(maxlen=LOOKBACK)
        self._task = 0

    @classmethod
    def rebuild(cls, steps: Iterable[Step]) -> Guards:
        """The state after these steps, in order. The last `LOOKBACK` of a session are enough."""
        guards = cls()
        for step in steps:
            guards.after(step)
        return guards

    def before(self, calls: Sequence[ToolCall]) -> list[str]:
        """What to tell the model about the action that it is about to take. Raises Stop ("stuck") at the tenth time.

        Pure: asking twice gives the same.
        """
        action = fingerprint(calls)
        if not calls:
            return []
        count = repeats([*self._actions, action])
        if count < NOTE_AT:
            return []
        what = f"the same action ({', '.join(dict.fromkeys(call.name for call in calls))}, same arguments)"
        if count >= STOP_AT:
            raise Stop("stuck", f"{what} was about to be taken for the {count}th time without anything new between")
        results = {result for known, result in zip(self._actions, self._results, strict=True) if known == action}
        same = ", with the same result as before" if len(results) == 1 else ""
        if count < CHANGE_AT:
            return [f"Note: you have now taken {what} {count} times{same}."]
        demand = (
            f"You have now taken {what} {count} times{same}. Do something else now: another query, another source, "
            f"another page or part, or answer with what you have. The run stops at {STOP_AT}."
        )
        return [demand]

    def after(self, step: Step) -> None:
        """Take a committed step into account. An answer, or a new question, starts anew."""
        if step.kind == "answer" or step.task != self._task:
            self._actions.clear()
            self._results.clear()
            self._task = step.task
        if step.calls and not step.interrupted:  # what was cut off from outside is no repetition
            self._actions.append(fingerprint(step.calls))
            self._results.append(hash(tuple(item.text for item in step.observations if item.call_id)))


def fingerprint(calls: Sequence[ToolCall]) -> str:
    """Equal for equal actions: names and arguments in order, whatever the order of keys and outer white space."""
    return json.dumps([[call.name, _plain(dict(call.arguments))] for call in calls], sort_keys=True)


def repeats(actions: Sequence[str]) -> int:
    """How often the last action has been taken within the pattern that the run is caught in; 1 when in none."""
    return max(_among_two(actions), *(_in_cycle(actions, length) for length in _CYCLES))


def _among_two(actions: Sequence[str]) -> int:
    seen: set[str] = set()
    count = 0
    for action in reversed(actions):
        seen.add(action)
        if len(seen) > 2:
            break
        count += action == actions[-1]
    return count


def _in_cycle(actions: Sequence[str], length: int) -> int:
    run = 0
    while run + length < len(actions) and actions[-1 - run] == actions[-1 - run - length]:
        run += 1
    return -(-run // length) + 1


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {
            key: _plain(item)
            for key, item in value.items()
            if not (key in ("page", "part") and item in _DEFAULTS) and item is not None
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.strip() if isinstance(value, str) else value
