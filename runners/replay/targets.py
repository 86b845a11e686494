"""What the next action of a recorded run needs from old steps, by the strict definition (docs/replay.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.chunking import full_text
from memory.records import Level, Step
from runners.replay.prepare import Prepared
from runners.replay.strings import is_marked, tokens, values


@dataclass(frozen=True, slots=True)
class Target:
    """A string that ``step`` uses and chunk ``source`` brought. ``kept`` [level]: the chunk's text there holds it."""

    step: int
    text: str
    source: int
    final: bool
    kept: tuple[bool, bool, bool, bool]

    @property
    def distance(self) -> int:
        """Steps between."""
        return self.step - self.source


def targets_of(run: Prepared) -> dict[int, tuple[Target, ...]]:
    """The targets of every step that has some. Independent of policy and budget."""
    steps = run.recording.steps
    first, everything = _first_seen(run)
    asked = [(question.from_step, tokens(question.text)) for question in run.recording.questions]
    levels: dict[int, tuple[frozenset[str], ...]] = {}
    used: set[str] = set()
    found: dict[int, tuple[Target, ...]] = {}
    for step in steps:
        uses = action_tokens(step)
        old = run.old(step.number)
        candidates = sorted(token for token in uses - used if is_marked(token, everything))
        candidates = [token for token in candidates if 1 <= first.get(token, 0) <= old]
        if candidates:
            known = {token for start, words in asked if start <= step.number for token in words}
            window = {token for recent in run.recent_steps(step.number) for token in tokens(full_text(recent))}
            kept = [token for token in candidates if token not in known and token not in window]
            final = step.kind == "answer"
            if kept:
                found[step.number] = tuple(_target(run, step.number, t, first[t], final, levels) for t in kept)
        used |= uses
    return found


def action_tokens(step: Step) -> frozenset[str]:
    """Tokens of a step's arguments, or of its answer."""
    if step.kind == "answer":
        return tokens(step.answer)
    return frozenset(token for call in step.calls for text in values(dict(call.arguments)) for token in tokens(text))


def _first_seen(run: Prepared) -> tuple[dict[str, int], set[str]]:
    """(token -> step whose observation brought it, 0 where something else did first; every token of the run)."""
    first: dict[str, int] = dict.fromkeys(tokens(run.recording.system), 0)
    starts = {question.from_step: question.text for question in run.recording.questions}
    for step in run.recording.steps:
        before = tokens(starts.get(step.number, "")) | tokens(step.thought) | action_tokens(step)
        for token in before:
            first.setdefault(token, 0)
        for observation in step.observations:
            for token in tokens(observation.text):
                first.setdefault(token, step.number)
    return first, set(first)


def _target(
    run: Prepared,
    step: int,
    token: str,
    source: int,
    final: bool,
    levels: dict[int, tuple[frozenset[str], ...]],
) -> Target:
    if source not in levels:
        levels[source] = tuple(tokens(run.view_text(source - 1, level)) for level in Level)
    kept = [token in words for words in levels[source]]
    return Target(step, token, source, final, (kept[0], kept[1], kept[2], kept[3]))


def strata(targets: Sequence[Target]) -> dict[str, list[Target]]:
    """Targets by stratum: ``all`` and the distances, or ``final`` where the step is a final answer."""
    groups: dict[str, list[Target]] = {}
    for target in targets:
        names = ("final",) if target.final else ("all", *distance_strata(target.distance))
        for name in names:
            groups.setdefault(name, []).append(target)
    return groups


def distance_strata(distance: int) -> tuple[str, ...]:
    """``3-5``, ``6-10``, ``>10`` and, within the last, ``>30``. Nearer ones (N < 2) are ``<3``."""
    if distance < 3:
        return ("<3",)
    if distance <= 5:
        return ("3-5",)
    if distance <= 10:
        return ("6-10",)
    return (">10", ">30") if distance > 30 else (">10",)
