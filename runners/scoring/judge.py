"""A model as judge: one question to it, one grade from it. A judge that is dead or silent gives ``ungraded``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.errors import AuthFailed, BackboneFault, ModelMissing
from memory.ports import Completion
from memory.records import Message, Request, Sampling, Usage, add_usage
from runners.scoring.verdict import Verdict

Grade: TypeAlias = Literal["correct", "incorrect", "ungraded"]
Parse: TypeAlias = Callable[[str], Verdict | None]
MAX_TOKENS = 4096
_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Judged:
    """A grade and what it stands on. ``reason``: the judge's, or why there is no grade; ``usage``: of all its calls."""

    grade: Grade
    extracted: str = ""
    reason: str = ""
    confidence: float | None = None
    usage: Usage = _NOTHING

    @property
    def score(self) -> float:
        """1 for correct, else 0: what was not graded stays in the denominator."""
        return float(self.grade == "correct")


class Judge:
    """Asks ``completion`` at temperature 0. ``record`` is told what each call used."""

    def __init__(
        self, completion: Completion, record: Callable[[Usage], Awaitable[None]] | None = None, attempts: int = 2
    ) -> None:
        self.completion = completion
        self._record = record
        self._attempts = attempts

    async def ask(self, prompt: str) -> tuple[str, Usage]:
        """The judge's reply as text. Raises BackboneFault."""
        messages = (Message("user", prompt),)
        request = Request(messages, max_output_tokens=MAX_TOKENS, sampling=Sampling(temperature=0.0))
        reply = await self.completion.complete(request)
        if self._record is not None:
            await self._record(reply.usage)
        return reply.text, reply.usage

    async def grade(self, prompt: str, parse: Parse) -> Judged:
        """One grade; a reply without a verdict is asked for once more. Raises AuthFailed and ModelMissing: no other
        answer can be graded either."""
        said, used = "", _NOTHING
        for _ in range(self._attempts):
            try:
                said, usage = await self.ask(prompt)
            except (AuthFailed, ModelMissing):
                raise
            except BackboneFault as fault:
                return Judged("ungraded", reason=f"{type(fault).__name__}: {fault}", usage=used)
            used = add_usage(used, usage)
            verdict = parse(said)
            if verdict is not None:
                grade: Grade = "correct" if verdict.correct else "incorrect"
                return Judged(grade, verdict.extracted, verdict.reason, verdict.confidence, used)
        return Judged("ungraded", reason=f"no verdict in {len(said)} characters of reply", usage=used)
