"""The one boundary where outside text becomes storable text.

After it a text can be encoded as UTF-8, shown on a terminal, read by a person as a model reads it, and put into a
prompt without acting there: no lone surrogates, no control characters but newline and tab, no invisible or
direction-changing characters, no special tokens of chat templates, no line break that only some readers take for one.

Readability comes first where the two meet: soft hyphens are dropped, joiners and variation selectors stay where
Indic scripts, Persian and emoji need them (between visible characters, one at a time).
"""

from __future__ import annotations

import re

MIN_LIMIT = 64
"""Smallest ``limit``: the marker itself must fit."""

_LINE_BREAKS = "\r\v\f\x85\u2028\u2029"
_DROPPED = "\u00ad\ufeff"


def _storable_table() -> dict[int, int | str | None]:
    """Controls become their pictures (one character each), every kind of line break becomes a newline."""
    table: dict[int, int | str | None] = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
    table[0x7F] = 0x2421
    table |= {code: rf"\u{{{code:02X}}}" for code in range(0x80, 0xA0)}
    table |= dict.fromkeys(map(ord, _LINE_BREAKS), "\n")
    table |= dict.fromkeys(map(ord, _DROPPED), None)
    return table


_TABLE = _storable_table()
_NEEDS_TABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u2028\u2029\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Format characters (Cf) without the visible Arabic and Syriac number signs; fillers and variation selectors, which are
# not Cf but equally invisible; noncharacters of the basic plane.
_INVISIBLE_CLASS = (
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef"
    "\ufe00-\ufe0f\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_INVISIBLE_CLASS}]")
_JOINERS = "\u200c\u200d"
_EMOJI_STYLE = "\ufe0e\ufe0f"
_TAIL = f"{_JOINERS}{_EMOJI_STYLE}"
_LATIN_END = "\u024f"
_SPECIAL = re.compile(
    r"<(?=[|｜][^\s<>|｜]{1,64}[|｜]>)"  # <|endoftext|>, <｜User｜>
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|start_of_turn|end_of_turn|think|tools?|tool_call|tool_response|answer)>)"
    r"|<(?=</?SYS>>)|\[(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\])"
)


def sanitize(text: str, limit: int | None = None) -> str:
    """Storable form of ``text``; idempotent, also at the same ``limit``.

    ``limit`` caps the result in characters (at least `MIN_LIMIT`, else ValueError); a capped text ends in a marker
    that says how many characters were left out.
    """
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    if _NEEDS_TABLE.search(text):
        text = text.replace("\r\n", "\n").translate(_TABLE)
    if not text.isascii():
        text = _INVISIBLE.sub(_shown, text)
    # A space after the bracket: still readable, no longer a token.
    text = _SPECIAL.sub(lambda match: match.group() + " ", text)
    return text if limit is None else cap(text, limit)


def cap(text: str, limit: int) -> str:
    """At most ``limit`` characters: the head, and a marker with the number left out. Raises ValueError."""
    if limit < MIN_LIMIT:
        raise ValueError(f"a limit of {limit} characters leaves no room for the marker; at least {MIN_LIMIT}")
    if len(text) <= limit:
        return text
    room = limit - len(_marker(len(text)))
    head = text[:room].rstrip(_TAIL)
    return head + _marker(len(text) - len(head))


def _marker(count: int) -> str:
    return f"\n[… {count} characters left out]"


def _shown(match: re.Match[str]) -> str:
    """An invisible character spelt out, unless its neighbours need it."""
    text, at = match.string, match.start()
    char = match.group()
    if char in _EMOJI_STYLE and _visible(text, at - 1):
        return char
    if char in _JOINERS and _joinable(text, at + 1):
        before = at - 1
        if before >= 0 and text[before] in _EMOJI_STYLE:
            before -= 1
        if _joinable(text, before):
            return char
    return rf"\u{{{ord(char):04X}}}"


def _visible(text: str, at: int) -> bool:
    return 0 <= at < len(text) and not text[at].isspace() and not _INVISIBLE.match(text[at])


def _joinable(text: str, at: int) -> bool:
    return _visible(text, at) and text[at] > _LATIN_END
