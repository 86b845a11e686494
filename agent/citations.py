"""Citations of an answer: ``[c12]`` resolved to the chunk, its URL and title, and the passage that shows the claim."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memory.errors import NotStored
from memory.ports import ChunkReader
from memory.records import Chunk, Observation, Source
from memory.text.bm25 import scores
from memory.text.passages import windows
from memory.text.sentences import spans
from memory.text.words import tokenize

QUOTE_CHARS = 400
CLAIM_CHARS = 600
_CITED = re.compile(r"[\[【](\s*c\d{1,12}(?:\s*[,;，、]\s*c\d{1,12})*\s*)[\]】]", re.IGNORECASE)
_ID = re.compile(r"\d+")
_HEAD = re.compile(
    r"^(?:observation: )?\[[^\n]*\]\(\S+\)\n\([^\n]*\)\n\n"
    r"|\A[^\n]+ \((?:whole file|page \d+ of \d+|found places)[^\n]*\)\n\n",
    re.MULTILINE,
)
"""What the tools write above the text of a page or a file: address and notes, which nobody wants quoted."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A chunk that an answer cites, with the text of the answer that leans on it."""

    chunk: int
    claim: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A resolved citation. ``found`` False: there is no such chunk, and the rest is empty.

    ``quote`` is a literal slice of what the chunk observed; ``url`` and ``title`` are empty where the chunk has no
    source (a computation, an earlier answer).
    """

    chunk: int
    url: str = ""
    title: str = ""
    quote: str = ""
    found: bool = True

    @property
    def chunk_id(self) -> str:
        return f"c{self.chunk}"


def find_mentions(answer: str) -> list[Mention]:
    """The chunks that an answer cites, by first mention. ``[c1, c2]`` and ``[c1][c2]`` share a claim."""
    claims: dict[int, list[str]] = {}
    end, claim = 0, ""
    for match in _CITED.finditer(answer):
        between = answer[end : match.start()]
        if tokenize(between):
            claim = between.strip()[-CLAIM_CHARS:]
        end = match.end()
        for number in _ID.findall(match.group(1)):
            said = claims.setdefault(int(number), [])
            if claim not in said:
                said.append(claim)
    return [Mention(chunk, "\n".join(said)) for chunk, said in claims.items()]


async def resolve_citations(answer: str, reader: ChunkReader) -> list[Citation]:
    """Every citation of the answer, by first mention, each chunk once; those to nothing with ``found`` False."""
    return [await _resolve(mention, answer, reader) for mention in find_mentions(answer)]


async def _resolve(mention: Mention, answer: str, reader: ChunkReader) -> Citation:
    try:
        chunk = await reader.chunk(mention.chunk)
    except NotStored:
        return Citation(mention.chunk, found=False)
    observations = await _observations(chunk, reader)
    whole = _CITED.sub(" ", answer)
    return await asyncio.to_thread(cite, chunk, observations, (mention.claim, whole))


async def _observations(chunk: Chunk, reader: ChunkReader) -> list[Observation]:
    """What the chunk saw; a glimpse saw what the chunk it refers to had seen."""
    found = [item for item in chunk.step.observations if item.call_id]
    for item in chunk.step.observations:
        for ref in item.refs:
            if not ref.last:
                with contextlib.suppress(NotStored):
                    found.extend((await reader.chunk(ref.chunk)).step.observations)
    return found


def cite(chunk: Chunk, observations: Sequence[Observation], queries: Sequence[str]) -> Citation:
    """The citation of a chunk: its best passage for the first of ``queries`` that shares a word with it."""
    number = chunk.step.number
    texts = [item.text for item in observations] or [chunk.step.answer or chunk.step.thought]
    pieces = [(index, start, end) for index, text in enumerate(texts) for start, end in _pieces(text)]
    if not pieces:
        source = chunk.step.source or Source("")
        return Citation(number, source.url, source.title)
    documents = [texts[index][start:end] for index, start, end in pieces]
    best = 0
    for query in queries:
        relevance = scores(query, documents)
        if relevance.any():
            best = int(np.argmax(relevance))
            break
    index, start, end = pieces[best]
    named = _source(observations[index], (start + end) // 2) if observations else None
    source = named or chunk.step.source or Source("")
    return Citation(number, source.url, source.title, texts[index][start:end])


def _pieces(text: str) -> list[tuple[int, int]]:
    """Runs of whole sentences of pages, each within the size of a quote; none has a tool's own header line in it."""
    heads = [match.span() for match in _HEAD.finditer(text)]
    starts, ends = [0, *(end for _, end in heads)], [*(start for start, _ in heads), len(text)]
    pieces: list[tuple[int, int]] = []
    for begin, stop in zip(starts, ends, strict=True):
        sentences = [(begin + start, begin + end) for start, end in spans(text[begin:stop], QUOTE_CHARS)]
        pieces += [(sentences[first][0], sentences[last][1]) for first, last in windows(sentences, QUOTE_CHARS)]
    return pieces


def _source(observation: Observation, position: int) -> Source | None:
    """The source that a position of an observation belongs to: the one named last before it."""
    named = [(observation.text.rfind(source.url, 0, position), source) for source in observation.sources if source.url]
    if not named:
        return observation.sources[0] if observation.sources else None
    return max(named, key=lambda entry: entry[0])[1]
