"""How much of a chunk a view preserves: sqrt(cosine(view, full) * share of the rare strings that survive).

The cosine alone hides lost names and numbers; the strings alone hide lost meaning.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memory.errors import EncoderFault
from memory.plan import FloatArray
from memory.ports import Encoder
from memory.records import View
from memory.summaries.base import Summariser, SummaryJob
from memory.text.sentences import split
from memory.text.words import UNSPACED

_LETTER = f"(?:(?![{UNSPACED}])\\w)"
_TOKEN = re.compile(
    r"https?://[^\s<>\"'|（）()\[\]{}，。、；\\]*[^\s<>\"'|（）()\[\]{}，。、；\\.,;:!?*`]"
    rf"|{_LETTER}+(?:(?:[-.'’@&+]|(?<=\d)[:/,](?=\d)){_LETTER}+)*"
    f"|[{UNSPACED}]+"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_MOST_CHARS = 400_000
"""A longer text is judged by its head."""

log = logging.getLogger(__name__)


def rare_strings(text: str) -> dict[str, float]:
    """The strings that may be needed to the letter, with their weights.

    A string counts when it holds a digit, is an address, or is written with a capital; in scripts without spaces every
    pair of characters does. Its weight is its inverse document frequency among the text's own sentences: what every
    sentence repeats is not rare. No corpus, so that the same text always gives the same weights.
    """
    sentences = split(text[:_MOST_CHARS])
    found: Counter[str] = Counter()
    for sentence in sentences:
        found.update(_strings(sentence))
    total = len(sentences)
    return {string: math.log1p((total - count + 0.5) / (count + 0.5)) for string, count in found.items()}


def surviving_share(rare: Mapping[str, float], view: str) -> float:
    """Weighted share of ``rare`` that stands in ``view`` as whole tokens; 1 where there is nothing to lose."""
    whole = sum(rare.values())
    if whole <= 0:
        return 1.0
    alive = _strings(view)
    return sum(weight for string, weight in rare.items() if string in alive) / whole


def fidelity(cosine: float, share: float) -> float:
    """In [0, 1], from the cosine of view and whole (a negative one counts as 0) and `surviving_share`."""
    return math.sqrt(min(1.0, max(0.0, cosine)) * min(1.0, max(0.0, share)))


def measured(views: Sequence[View], full: str, cosines: FloatArray) -> list[View]:
    """The views with their fidelity to the FULL text; ``cosines`` (len(views),) of each view's text and ``full``."""
    rare = rare_strings(full)
    whole = full.strip()
    return [
        replace(view, fidelity=1.0 if view.text == whole else fidelity(float(cosine), surviving_share(rare, view.text)))
        for view, cosine in zip(views, cosines, strict=True)
    ]


class MeasuredSummariser:
    """A summariser whose views carry their fidelity. Measuring runs off the event loop; where the encoder fails, views
    go without."""

    def __init__(self, inner: Summariser, encoder: Encoder) -> None:
        self.producer = inner.producer
        self.prompt_hash = inner.prompt_hash
        self._inner = inner
        self._encoder = encoder

    async def summarise(self, job: SummaryJob) -> list[View]:
        """The inner summariser's views, measured."""
        views = await self._inner.summarise(job)
        try:
            return await asyncio.to_thread(self._measured, views, job.text)
        except EncoderFault as fault:
            log.warning("fidelity of c%d is not measured: %s", job.chunk, fault)
            return views

    async def aclose(self) -> None:
        """Close the inner one."""
        await self._inner.aclose()

    def _measured(self, views: list[View], full: str) -> list[View]:
        shorter = [view.text for view in views if view.text != full.strip()]
        if not shorter:
            return measured(views, full, np.ones(len(views)))
        keys = self._encoder.encode_documents([full, *shorter])
        cosines = dict(zip(shorter, (keys[1:] @ keys[0]).astype(np.float64), strict=True))
        return measured(views, full, np.array([cosines.get(view.text, 1.0) for view in views]))


def _strings(text: str) -> set[str]:
    strings: set[str] = set()
    for match in _TOKEN.finditer(text):
        token = match.group()
        if _UNSPACED.match(token):
            strings.update(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        elif token.lower() != token or "://" in token or any(char.isdigit() for char in token):
            strings.add(token)
    return strings
