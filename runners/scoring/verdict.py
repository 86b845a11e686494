"""What a judge said: read strictly, so that "INCORRECT" never counts as containing "CORRECT".

A reply without a verdict gives None. Upstream scorers take that for "no"; here it is `ungraded`, which counts the same
but can be graded again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_THINK = re.compile(r"\A.*</think>|<think>.*", re.DOTALL | re.IGNORECASE)
_FIELD = r"^[\s>#*_\-`]*{name}[\s*_`]*[:：][\s*_`]*(.*)$"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*[%％]?")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_OPENING = "'\"“”‘’[]()【】「」 "
_YES_NO = re.compile(r"(yes|no)\b(?!-)(?P<rest>.*)", re.IGNORECASE)
_ZH = re.compile(r"(不正确|正确|错误)(?![\w/|｜／])")
NONE = frozenset({"none", "无", ""})
"""What stands for no extracted answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judgement. ``confidence``: what the judge extracted, in percent; None when it gave none."""

    correct: bool
    extracted: str = ""
    reason: str = ""
    confidence: float | None = None


def yes_no(text: str) -> Verdict | None:
    """The form of BrowseComp: ``extracted_final_answer``, ``reasoning``, ``correct: yes|no``, ``confidence``.

    The last line that is a ``correct:`` counts; a word that merely begins with yes or no does not, nor does a line that
    leaves both open, such as ``yes/no`` or the judge's own instructions.
    """
    said = spoken(text)
    match = _YES_NO.match(field(said, "correct").lstrip(_OPENING))
    if match is None or _open(match["rest"]):
        return None
    return Verdict(
        correct=match[1].lower() == "yes",
        extracted=_answer(field(said, "extracted_final_answer")),
        reason=field(said, "reasoning"),
        confidence=percent(field(said, "confidence")),
    )


def conclusion(text: str) -> Verdict | None:
    """The form of xbench: ``最终答案``, ``解释``, ``结论: 正确|错误``."""
    said = spoken(text)
    match = _ZH.match(field(said, "结论").lstrip(_OPENING))
    if match is None:
        return None
    return Verdict(match[1] == "正确", _answer(field(said, "最终答案")), field(said, "解释"))


def one_word(
    text: str,
    positive: Collection[str] = ("correct", "yes", "true", "1"),
    negative: Collection[str] = ("incorrect", "no", "false", "0", "wrong"),
) -> bool | None:
    """A verdict in one word: of the last line that holds any of these as whole words, in whatever case.

    None where there is none, or where the line holds both kinds. "not correct" is negative.
    """
    for line in reversed(spoken(text).splitlines()):
        words = [word.lower() for word in _WORD.findall(line)]
        told = [at for at, word in enumerate(words) if word in positive or word in negative]
        said = {(words[at] in positive) != (at > 0 and words[at - 1] == "not") for at in told}
        if said:
            return said.pop() if len(said) == 1 else None
    return None


def field(text: str, name: str) -> str:
    """What stands after ``name:`` on the last line that begins so, Markdown around it dropped; empty without one."""
    found = re.findall(_FIELD.format(name=re.escape(name)), text, re.MULTILINE | re.IGNORECASE)
    return found[-1].strip(" \t*_`") if found else ""


def percent(text: str) -> float | None:
    """A confidence between 0 and 100; None where there is none."""
    match = _PERCENT.search(text)
    return min(100.0, float(match[1])) if match else None


def spoken(text: str) -> str:
    """A reply without what its model only thought."""
    return _THINK.sub("", text)


def _open(rest: str) -> bool:
    """Whether what follows a verdict is no explanation, set off by a comma or the like, and names a verdict again."""
    set_off = rest.lstrip(_OPENING + "*_`")[:1] in tuple(".,;:!—–-。，；")
    return not set_off and any(word.lower() in ("yes", "no") for word in _WORD.findall(rest))


def _answer(text: str) -> str:
    return "" if text.strip("'\"‘’“” ").lower() in NONE else text
