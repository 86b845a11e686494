"""The embedded policy with a small language model that reads for it.

Models of half a billion parameters are poor at choosing what to do and fair at reading a few sentences: so the policy
searches, visits and picks the passages, and the model is asked once, at the end, for the words that answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace

from agent.backbones.base import Backbone, Wrapper
from agent.backbones.extractive.decision import Reading, reading
from agent.backbones.extractive.pages import Passage
from agent.backbones.extractive.scene import read_scene
from memory.records import Message, Reply, Request, Sampling, add_usage

MAX_TEXT = 1_800
"""Characters of the passages that are read."""
MAX_ANSWER_TOKENS = 64
MAX_QUOTES = 2
BEFORE, AFTER = 2, 2
"""Lines around a passage that are read with it."""
_SYSTEM = "You read a text and answer a question about it. Answer with the fewest words of the text that answer it."
_WORD = re.compile(r"\w+")


class ReadingBackbone(Wrapper):
    """An `EmbeddedBackbone` whose answers are worded by ``reader`` from the passages that the policy picked."""

    def __init__(self, policy: Backbone, reader: Backbone) -> None:
        super().__init__(policy)
        self.model = f"extractive policy, answers read by {reader.model}"
        self._reader = reader

    async def complete(self, request: Request) -> Reply:
        """Raises as the policy and the reader do."""
        reply = await super().complete(request)
        if json.loads(reply.text).get("action") != "answer":
            return reply
        given = await asyncio.to_thread(lambda: reading(read_scene(request)))
        if not given.passages:
            return reply
        read = await self._reader.complete(_asked(given, request.task_key))
        usage = add_usage(reply.usage, read.usage)
        short = " ".join(read.text.split())
        if not short or read.stop_reason == "refusal":
            return replace(reply, usage=usage)
        text = json.dumps({"action": "answer", "answer": _worded(short, given)}, ensure_ascii=False)
        return replace(reply, text=text, usage=usage)

    async def aclose(self) -> None:
        await self._reader.aclose()
        await super().aclose()


def _asked(given: Reading, task_key: str) -> Request:
    text = "\n".join(_within(given))
    question = f"{text}\n\nQuestion: {given.question}\nShort answer:"
    return Request(
        messages=(Message("system", _SYSTEM), Message("user", question)),
        max_output_tokens=MAX_ANSWER_TOKENS,
        sampling=Sampling(temperature=0.0),
        task_key=task_key,
    )


def _within(given: Reading) -> Iterator[str]:
    """The policy's own passage, then the others with the lines around them, as far as there is room."""
    room = MAX_TEXT
    seen: set[str] = set()
    for text in [given.found.quote.rpartition(" [c")[0], *map(_around, given.passages)]:
        flat = " ".join(text.split())
        if not flat or flat in seen:
            continue
        if len(flat) > room:
            return
        seen.add(flat)
        room -= len(flat)
        yield flat


def _around(passage: Passage) -> str:
    """A passage and its neighbours: in documentation a sentence often goes over several lines."""
    return " ".join(passage.page.sentences[max(0, passage.index - BEFORE) : passage.index + 1 + AFTER])


def _worded(short: str, given: Reading) -> str:
    """The answer on the first line, then what it rests on: passages that share its words, else the policy's own."""
    words = {word.lower() for word in _WORD.findall(short)}

    def share(text: str) -> float:
        return len(words & {word.lower() for word in _WORD.findall(text)}) / max(1, len(words))

    best = sorted(given.passages, key=lambda passage: -share(passage.text))[:MAX_QUOTES]
    quotes = [f"{' '.join(passage.text.split())[:400]} [c{passage.page.chunk}]" for passage in best]
    if given.found.quote and share(given.found.quote) >= 0.5:
        quotes = [given.found.quote]
    return "\n".join([short, *quotes])
