"""Questions about documentation (of functions, classes, modules): read by entry, not by sentence.

An entry is a signature line with the indented text under it, as reference pages are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from agent.backbones.extractive.pages import Page, sentence_stems
from agent.backbones.extractive.words import stem, stems
from memory.text.sentences import split

Ask: TypeAlias = Literal["return", "default", "raise", "module", "member", "number", "does", "what"]
_DOTTED = re.compile(
    r"(?<![\w./])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?(?![\w/])|\b[a-z]+(?:_[a-z0-9]+)+\b|\b\w+\(\)"
)
_SUBJECT = re.compile(
    r"\bdoes (?:the )?(?:built-?in )?([a-z]\w*) (?:return|raise|do|test|yield|mean|accept|take|compute|print)\b"
    r"|\bthe (?:built-?in )?([a-z]\w+) (?:function|method|constructor|class|decorator|built-?in|exception)\b"
    r"|\b([A-Z]\w+) (?:class|exception|method)\b"
)
_NO_SUBJECT = frozenset(
    ("it", "this", "that", "python", "one", "base", "same", "which", "what", "first", "built", "parent")
)
_TOPIC = re.compile(
    r"\b(?:modules?|functions?|methods?|exceptions?|constructor|decorator|keyword argument|parameter|default value|"
    r"built-?ins?|standard library|python)\b",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"^(?:- )?(?:(?:async|class|exception|def|static|abstract) )*(?P<name>[A-Za-z_][\w.]*)"
    r"(?P<rest>\s*[(\[].*|: .*|\s*->.*|, an? .*| = .*|)$"
)
_ERROR = re.compile(r"\b(?:[A-Z]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)\b")
_RAISED = re.compile(r"\b[Rr]ais(?:es?|ed|ing)\s+(?:an?\s+|the\s+)?([A-Za-z_.]*[A-Z]\w+)")
_MODAL = re.compile(r"\b(?:should|must|to|will|can|may|the|a)\s+$")
_RETURNS = re.compile(r"\b(?:[Rr]eturn(?:s|ed|ing)?|[Yy]ields?)\b(?! values?\b):?\s*")
_BOILER = re.compile(r", an? (?:built-in )?(?:function|class)\b|^Contents of\b|^Functions:$")
_SHORT = {"obj": "object", "str": "string", "func": "function", "dir": "directory", "seq": "sequence", "num": "number"}
"""How reference pages name parameters, and what a question calls them."""
_MODULE = re.compile(r"\bthe ([a-z_][\w.]*) (?:module|package)\b|\b(?:module|package) ([a-z_][\w.]*)\b(?=[ ?])")
OTHER_HOMES = {"genericpath": "os.path", "posixpath": "os.path", "ntpath": "os.path"}
"""Modules that implement another one."""
_NEGATION = re.compile(r"\b(?:not|no|None|never|without|empty|n't)\b")
MAX_QUOTE = 600


@dataclass(frozen=True, slots=True)
class DocQuestion:
    """``subjects``: dotted names; ``ask``: what is wanted of them; ``module``: the module that is named as such."""

    subjects: tuple[str, ...]
    ask: Ask
    words: tuple[str, ...]
    negated: bool = False
    module: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """``name`` as in the signature; ``paragraphs`` without line breaks."""

    name: str
    signature: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DocAnswer:
    """``quote`` is a literal passage of the page but for white space. ``sure``: the subject's own entry says it."""

    span: str
    quote: str
    page: Page
    sure: bool


@lru_cache(maxsize=256)
def doc_question(text: str) -> DocQuestion | None:
    """The question as one about documentation, or None."""
    dotted = [match.group().removesuffix("()") for match in _DOTTED.finditer(text) if not _is_host(match.group())]
    plain = [next(filter(None, match.groups())) for match in _SUBJECT.finditer(text)]
    plain = [name for name in plain if name.lower() not in _NO_SUBJECT]
    subjects = tuple(dict.fromkeys([*dotted, *plain]))
    if not subjects and not _TOPIC.search(text):
        return None
    if not dotted and not _TOPIC.search(text) and not re.search(r"\b(?:return|raise)s?\b", text):
        return None
    said = {part.lower() for subject in subjects for part in subject.split(".")}
    said |= {"return", "returns", "raise", "raised", "raises", "yield", "yields", "default", "value"}
    words = tuple(term for term in stems(text) if term not in {stem(part) for part in said})
    module = _MODULE.search(text)
    where = next(filter(None, module.groups()), "") if module else ""
    return DocQuestion(subjects, _ask(text), words, bool(_NEGATION.search(text)), where)


def answer_doc(question: DocQuestion, pages: Sequence[Page]) -> DocAnswer | None:
    """The best answer out of the entries of the pages; None when the pages have no entry for it."""
    best: DocAnswer | None = None
    best_score = 0.0
    for page in pages:
        for entry in entries(page.text):
            named = _named(question, entry, page)
            if question.subjects and not named:
                continue
            for found, score in _readings(question, entry, page, named):
                if score > best_score + 1e-9:
                    best, best_score = found, score
    return best


@lru_cache(maxsize=512)
def entries(text: str) -> tuple[Entry, ...]:
    """The entries of a page, in order. Text before the first one belongs to none."""
    found: list[Entry] = []
    name = signature = ""
    lines: list[str] = []
    for line in [*text.splitlines(), "end"]:
        head = None if line.startswith((" ", "\t")) or _BOILER.search(line) else _HEAD.match(line)
        if head is None:
            lines.append(line.strip())
            continue
        if name:
            found.append(Entry(name, signature, _paragraphs(lines)))
        name, signature, lines = head["name"], line.removeprefix("- ").strip(), []
        if head["rest"].startswith(": "):
            lines = [head["rest"][2:]]
        elif "): " in line:
            lines = [line.partition("): ")[2]]
    return tuple(found)


def _paragraphs(lines: Sequence[str]) -> tuple[str, ...]:
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines))
    return tuple(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())


def _ask(text: str) -> Ask:
    lower = text.lower()
    if re.search(
        r"\b(?:which|what) (?:standard |standard library |built-?in )?(?:python )?(?:library )?(?:module|package)\b",
        lower,
    ):
        return "module"
    if "default" in lower:
        return "default"
    if re.search(r"\braise", lower):
        return "raise"
    if re.search(r"\b(?:which|what) (?:[\w-]+ )?(?:functions?|method|class|decorator|constant|exception)\b", lower):
        return "member"
    if re.search(r"\b(?:return|yield)s?\b", lower):
        return "return"
    if re.search(r"\bhow (?:many|much|long|often)\b", lower):
        return "number"
    return "does" if re.search(r"\bwhat (?:does \S+ (?:\w+ )?(?:do|test|mean|compute)\b|is\b)", lower) else "what"


def _named(question: DocQuestion, entry: Entry, page: Page) -> float:
    """0 when the entry is about no subject of the question; more when the qualifier agrees too."""
    best = 0.0
    home = page.title.split(" ")[0]
    where = set(re.findall(r"\w+", f"{page.title} {entry.name} {OTHER_HOMES.get(home, '')}"))
    for subject in question.subjects:
        *qualifier, last = subject.split(".")
        parts = entry.name.split(".")
        if parts[-1] == last or (len(parts) == 1 and page.title.split(" ")[0] == subject):
            agreeing = sum(part in where for part in qualifier)
            best = max(best, 1.0 + 0.4 * agreeing - 0.1 * (len(qualifier) - agreeing))
    return best


def _readings(question: DocQuestion, entry: Entry, page: Page, named: float) -> Iterator[tuple[DocAnswer, float]]:
    """(answer, score) for what an entry says."""
    sure = named >= max((1.0 + 0.4 * subject.count(".") for subject in question.subjects), default=1.0) - 1e-9
    if question.ask == "default":
        value = _default(question, entry)
        if value:
            yield DocAnswer(value, entry.signature, page, sure), 3.0 + named
    if question.ask in ("module", "member"):
        yield from _owners(question, entry, page)
        return
    first = True
    for paragraph in entry.paragraphs:
        for sentence in split(paragraph):
            if sentence.startswith((">>>", "...")):
                continue
            overlap = _overlap(question.words, sentence)
            if question.negated:
                overlap += 0.2 if _NEGATION.search(sentence) else 0.0
            span, bonus = _span(question.ask, sentence, first)
            if span:
                yield DocAnswer(span, _clip(sentence), page, sure), named + bonus + overlap
            first = False
    if question.ask == "return" and "->" in entry.signature and named:
        yield DocAnswer(entry.signature.rpartition("->")[2].strip(" -:>"), entry.signature, page, sure), named + 0.2


def _owners(question: DocQuestion, entry: Entry, page: Page) -> Iterator[tuple[DocAnswer, float]]:
    """The module, or the member, whose own words cover the question's."""
    module = question.ask == "module"
    lead = entry.paragraphs[0] if entry.paragraphs else ""
    path = page.title.split(" ")[0]
    text = f"{entry.signature} {lead}"
    words = [
        word
        for word in question.words
        if word not in ("modul", "function", "class", "method", "python", "provid", "implement", "access")
    ]
    covered = _overlap(words, f"{text} {path}")
    score = covered
    whole = "module" in page.title or entry.name == path
    if module:
        span = path if whole else path.rpartition(".")[0] or path
        score += 0.3 if entry.name == path else 0.0
    else:
        span = entry.name
        parts = [stem(part) for part in entry.name.rpartition(".")[2].lower().split("_")]
        score += 0.4 * sum(part in words for part in parts) / len(parts)
    quote = _clip(f"{entry.signature} {lead}" if lead and lead not in entry.signature else entry.signature)
    if question.module and not module:
        score += 0.3 if path.split(".")[0] == question.module.split(".")[0] else -0.3
    if not module and whole and entry.name == path:
        return
    if score > 0.3:
        yield DocAnswer(span, quote, page, sure=covered >= (0.8 if module else 0.99)), score


def _default(question: DocQuestion, entry: Entry) -> str:
    """The default, in the signature, of the parameter that the question's words name."""
    best, best_score = "", 0.0
    for match in re.finditer(r"(\w+)(?:: [^=,()]+)?\s*=\s*('[^']*'|\"[^\"]*\"|[^,()\s]+(?:\(\))?)", entry.signature):
        parts = [part for part in match[1].lower().split("_") if part]
        hits = sum(any(word.startswith(part[:4]) or part.startswith(word) for word in question.words) for part in parts)
        score = hits / len(parts)
        if score > best_score:
            best, best_score = match[2], score
    return best


def _span(ask: Ask, sentence: str, first: bool) -> tuple[str, float]:
    """(short answer, bonus) of a sentence for what is asked; "" when it does not speak to it."""
    if ask == "raise":
        found = _RAISED.search(sentence)
        error = _ERROR.search(sentence)
        if found or error:
            return (found[1] if found else error.group() if error else ""), 0.6 if found else 0.3
        return "", 0.0
    if ask == "return":
        match = _RETURNS.search(sentence)
        if match is None:
            return (_clip(sentence, 160), 0.2) if first else ("", 0.0)
        modal = _MODAL.search(sentence[: match.start()])
        bonus = 0.6 if match.start() == 0 else 0.5 if first else 0.1 if modal else 0.3
        return _clip(sentence[match.end() :] or sentence, 160), bonus
    if ask == "default":
        match = re.search(r"\bdefaults? (?:to|is|value is|value of)\s+([^\s,;]+)", sentence)
        if match:
            return match[1].rstrip("."), 0.8
        return (_clip(sentence, 160), 0.2) if "default" in sentence.lower() else ("", 0.0)
    if ask == "number":
        return _clip(sentence, 160), 0.4 if re.search(r"\d", sentence) else 0.0
    return _clip(sentence, 160), (0.4 if ask == "does" else 0.05) if first else 0.0


def _overlap(words: Sequence[str], text: str) -> float:
    """Share of the distinct words that a text has."""
    distinct = set(words) - {"python", "standard", "library", "valu", "default"}
    said = sentence_stems(text)
    said |= {stem(_SHORT[word]) for word in said if word in _SHORT}
    return sum(word in said for word in distinct) / len(distinct) if distinct else 0.0


def _is_host(text: str) -> bool:
    return bool(re.search(r"\.(?:com|org|net|edu|gov|io|uk|de)$", text)) or bool(
        re.fullmatch(r"(?:[A-Za-z]\.)+[A-Za-z]?", text)
    )


def _clip(text: str, limit: int = MAX_QUOTE) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
