"""The text dialect of WebSailor: the calls of `tongyi`, the tools in the user message, a short system prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent.dialects.tongyi import TongyiDialect, TongyiFormat, trained_tool
from agent.prompts import prompt
from memory.ports import StepFormat
from memory.records import Message, Sampling, ToolSpec

SAMPLING = Sampling(temperature=0.6, top_p=0.95)


@dataclass(frozen=True, slots=True)
class WebsailorFormat(TongyiFormat):
    """As `TongyiFormat`; the question ends the message that lists the tools."""

    def preamble(self, question: str) -> tuple[Message, ...]:
        lines = "\n".join(json.dumps(trained_tool(tool), ensure_ascii=False) for tool in self.tools)
        python = f"{prompt('tongyi_python')}\n" if any(tool.name == "python" for tool in self.tools) else ""
        asked = prompt("websailor_user").replace("{python}", python).replace("{tools}", lines)
        system = prompt("websailor") + (f"\n\nCurrent date: {self.today}" if self.today else "")
        # the question last: it may hold anything, braces included
        return Message("system", system), Message("user", asked.replace("{question}", question), cache_point=True)


class WebsailorDialect(TongyiDialect):
    """Text in, text out, as `TongyiDialect`."""

    name = "websailor"
    own_sampling = SAMPLING

    def step_format(self, tools: Sequence[ToolSpec]) -> StepFormat:
        return WebsailorFormat(tuple(tools), self._today)
