"""Text to terms for lexical scores, for scripts with and without spaces between words."""

from __future__ import annotations

import re
import unicodedata

# Scripts written without spaces (Han, kana, Thai, Lao, Myanmar, Khmer), and Hangul, whose particles stick to words.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
# Indic vowel signs are marks, which \w leaves out.
_LETTER = f"(?:(?![{UNSPACED}])[\\w\u0900-\u0dff])"
_TERM = re.compile(f"[{UNSPACED}]+|{_LETTER}+(?:(?:[-./:@,'’]+|\\+\\+?|#){_LETTER}+)*(?:\\+\\+|#)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ACCENT = re.compile("[\u0300-\u036f]")
_INSIDE = re.compile(r"[-./:@,'’+#]+")
_POSSESSIVE = re.compile(r"['’]s?$")


def tokenize(text: str) -> list[str]:
    """Terms of a text, in order, repeated as they occur.

    NFKC, lower case, accents dropped. Words are split at hyphens and slashes; a compound that holds a digit or an
    underscore (date, version, identifier, file name with a number) is kept whole and its parts follow it. Runs of
    scripts without spaces become overlapping bigrams (a single character when it stands alone).
    """
    terms: list[str] = []
    for match in _TERM.finditer(_fold(text)):
        piece = match.group()
        if _UNSPACED_RUN.match(piece):
            terms.extend(_bigrams(piece))
        elif piece.isalnum():
            terms.append(piece)
        else:
            terms.extend(_compound(piece))
    return terms


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).lower()
    decomposed = unicodedata.normalize("NFD", folded)
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def _bigrams(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _compound(piece: str) -> list[str]:
    piece = _POSSESSIVE.sub("", _THOUSANDS.sub("", piece))
    if _NUMBER.fullmatch(piece) or not _INSIDE.search(piece):
        return [piece] if piece else []
    parts = [part for part in _INSIDE.split(piece) if part]
    if "'" in piece or "’" in piece:
        # don't, o'brien: one word, unless more is glued to it
        parts = [part.replace("'", "").replace("’", "") for part in re.split(r"[-./:@,+#]+", piece) if part.strip("'’")]
    whole = any(ch.isdigit() or ch in "_+#@" for ch in piece)
    return [piece, *parts] if whole and parts != [piece] else parts
