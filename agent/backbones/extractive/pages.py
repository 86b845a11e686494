"""Pages and passages out of the visible blocks, and how well a passage speaks to the question."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agent.backbones.extractive.attached import is_attached, split_head
from agent.backbones.extractive.names import full_key, key
from agent.backbones.extractive.scene import Block, Scene
from agent.backbones.extractive.words import stem, stems
from memory.text.sentences import split

MAX_SENTENCES = 400
"""Of one page: a step must stay fast whatever a page holds."""
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\((\S{1,500}?)\)")
_ITEM = re.compile(r"^\s*(\d+)[.)]\s+(.*)$")
_TITLE = re.compile(r"^\s*(?:#{1,2}\s+|[Tt]itle:\s*|[Pp]age:\s*)(.{1,200})$")
_ADDRESS = re.compile(r"^\s*(?:(?:url|source|address|page)\b\W*)?(?:<?https?://\S+|\d+ of \d+)", re.IGNORECASE)
_NOTE = re.compile(r"^\((?:whole page|page \d|extract of|found places|no page)[^\n]*\)$")
_EVIDENCE = "Evidence in page:\n"
_BEGINNING = "\n\nStart of page:\n"
_SIZE = re.compile(r"(?: \(\+\d+ calls\))?, (?:\d+K? chars|\w+)$")
_URL = re.compile(r"https?://[^\s<>\"')\]]+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result as listed. ``rank`` from 1 within its list."""

    url: str
    title: str
    snippet: str
    rank: int


@dataclass(frozen=True, slots=True)
class Page:
    """A visited page (or any other observation worth reading) as far as it is visible."""

    chunk: int
    title: str
    sentences: tuple[str, ...]
    whole: bool
    url: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence with where it stands. ``score`` >= 0."""

    page: Page
    index: int
    score: float

    @property
    def text(self) -> str:
        return self.page.sentences[self.index]


def read_hits(blocks: Iterable[Block]) -> dict[str, Hit]:
    """Results of the visible searches by URL; the best rank of each."""
    hits: dict[str, Hit] = {}
    for block in blocks:
        if block.tool == "search" and block.level != "placeholder":
            for hit in _listed(block.text):
                if hit.url not in hits or hits[hit.url].rank > hit.rank:
                    hits[hit.url] = hit
    return hits


@lru_cache(maxsize=512)
def _listed(text: str) -> tuple[Hit, ...]:
    hits: list[Hit] = []
    title = url = ""
    rank = 0
    snippet: list[str] = []
    for line in [*text.splitlines(), "1. "]:
        item = _ITEM.match(line)
        if item is None:
            found = _URL.search(line)
            if rank and not url and found:
                url = found.group().rstrip(".,;")
            else:
                snippet.append(line.strip())
            continue
        if url:
            hits.append(Hit(url, html.unescape(title), html.unescape(" ".join(snippet)), rank))
        rank, snippet = int(item[1]) or 1, []
        link, found = _LINK.search(item[2]), _URL.search(item[2])
        title = link[1] if link else _URL.sub("", item[2]).strip(" -–—|:")
        url = link[2] if link else found.group() if found else ""
        if link:
            snippet.append(item[2][link.end() :].strip(" -–—|:"))
    return tuple(hits)


def block_title(block: Block, hits: Mapping[str, Hit]) -> str:
    """Title of the page that a visit read, as far as the block or a listed hit says it."""
    if block.level == "placeholder":
        return _SIZE.sub("", block.text)
    for url in block.argument_texts("urls"):
        if url in hits:
            return hits[url].title
    return _page_text(block.text, "")[0]


def read_pages(scene: Scene) -> list[Page]:
    """The visible pages, the finest view of each chunk, in order of chunks. Searches, failures, answers are none."""
    titles = {hit.url: hit.title for hit in read_hits(scene.blocks).values()}
    best: dict[int, Page] = {}
    for block in scene.blocks:
        if block.tool in ("search", "answered", "note") or block.failed or block.level == "placeholder":
            continue
        if not block.tool and block.level == "recent":
            continue
        urls = block.argument_texts("urls")
        url = urls[0] if urls else ""
        named, body = split_head(block.text) if is_attached(block) else ("", block.text)
        title, text, sentences = _page_text(body, named or titles.get(url, ""))
        page = Page(block.chunk, title, sentences, block.whole, url, text)
        if sentences and (block.chunk not in best or page.whole >= best[block.chunk].whole):
            best[block.chunk] = page
    return [best[chunk] for chunk in sorted(best)]


@lru_cache(maxsize=512)
def _page_text(text: str, title: str) -> tuple[str, str, tuple[str, ...]]:
    """(title, text, sentences) of an observation of a page; its head (title, address, notes) is cut off, links become
    their text, and the start of the page comes before passages picked out of it."""
    link = _LINK.match(text)
    if link and not title:
        title = html.unescape(link[1])
    text = html.unescape(_LINK.sub(r"\1", text))
    lines = text.splitlines()
    start = 1 if link else 0
    for number, line in enumerate(lines[start:8], start):
        head = _TITLE.match(line)
        if head and not title:
            title = head[1].strip()
        if head or not line.strip() or _ADDRESS.match(line) or _NOTE.match(line) or line.strip() == title:
            start = number + 1
        else:
            break
    text = "\n".join(lines[start:])
    evidence, _, beginning = text.removeprefix(_EVIDENCE).partition(_BEGINNING)
    if beginning and text.startswith(_EVIDENCE):
        text = f"{beginning}\n\n{evidence}"
    return title, text, tuple(split(text)[:MAX_SENTENCES])


@lru_cache(maxsize=16384)
def sentence_stems(text: str) -> frozenset[str]:
    return frozenset(stems(text))


class Scorer:
    """Scores of sentences for a set of words: share of the words' weight that a sentence (with its title) covers.

    A word weighs more the fewer of the visible sentences have it (BM25's inverse document frequency).
    """

    def __init__(self, words: Sequence[str], pages: Sequence[Page]) -> None:
        self._pages = pages
        self.words = list(dict.fromkeys(stem(word) for word in words))
        bags = [sentence_stems(sentence) for page in pages for sentence in page.sentences]
        self._weights = {
            word: math.log1p((len(bags) + 1) / (1 + sum(word in bag for bag in bags))) for word in self.words
        }
        self.total = sum(self._weights.values()) or 1.0

    def weight(self, word: str) -> float:
        return self._weights.get(word, 0.0)

    def score(self, page: Page, index: int) -> float:
        """0 to about 1.2: in-sentence words count whole, words of the title half, of the neighbours a fifth."""
        here = sentence_stems(page.sentences[index])
        title = sentence_stems(page.title)
        near: frozenset[str] = frozenset()
        if index:
            near = sentence_stems(page.sentences[index - 1])
        total = 0.0
        for word, weight in self._weights.items():
            total += weight * (1.0 if word in here else 0.5 if word in title else 0.2 if word in near else 0.0)
        return total / self.total

    def passages(self, limit: int = 12) -> list[Passage]:
        """The best sentences, best first; ties by position."""
        found = [
            Passage(page, index, self.score(page, index))
            for page in self._pages
            for index in range(len(page.sentences))
        ]
        found.sort(key=lambda passage: (-passage.score, passage.page.chunk, passage.index))
        return [passage for passage in found[:limit] if passage.score > 0]

    def uncovered(self, pages: Sequence[Page]) -> list[str]:
        """Words that none of the pages has."""
        seen: set[str] = set()
        for page in pages:
            seen |= sentence_stems(page.title)
            for sentence in page.sentences:
                seen |= sentence_stems(sentence)
        return [word for word in self.words if word not in seen]


@lru_cache(maxsize=65536)
def title_match(name: str, title: str) -> float:
    """How well a title is a name: 1.2 to the letter, 1 but for what is in parentheses, about .8 when one holds the
    other, .7 same words in part; 0 else."""
    if not name or not title:
        return 0.0
    if full_key(name) == full_key(title):
        return 1.2
    a, b = key(name), key(title)
    if not a or not b:
        return 0.0
    if a == b:
        return 1.0
    left, right = a.split(), b.split()
    shared = set(left) & set(right)
    if len(left) > 1 and set(left) <= set(right):
        return 0.8 - 0.02 * (len(right) - len(left))
    if len(right) > 1 and set(right) <= set(left):
        return 0.78 - 0.02 * (len(left) - len(right))
    if left[-1] == right[-1] and len(shared) * 3 >= len(set(left) | set(right)) * 1.9:
        return 0.7
    return 0.0


def find_page(name: str, pages: Sequence[Page]) -> Page | None:
    """The visited page about a name: by its title, else by a lead that opens with the name."""
    best, best_score = None, 0.69
    opening = key(name) + " "
    for page in pages:
        score = title_match(name, page.title)
        if score < 0.7 and opening.count(" ") > 1 and page.sentences and key(page.sentences[0]).startswith(opening):
            score = 0.75
        if score > best_score:
            best, best_score = page, score
    return best
