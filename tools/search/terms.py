"""Words as the index knows them. CJK runs are cut into overlapping pairs, so two-character words are found too.

FTS5's own trigram tokenizer cannot match a query of two characters, which most Chinese words are; pairs can, stand in
the same table as Latin words, and so share one BM25 ranking in mixed text.
"""

from __future__ import annotations

import re
import unicodedata

from memory.text.words import UNSPACED

CJK_RUN = re.compile(f"[{UNSPACED}]+")
_WORD = re.compile(f"[{UNSPACED}]+|(?:(?![{UNSPACED}])\\w)+")
MAX_TERMS = 64

_STOP = """
a about after all also an and any are as at be because been before being between both but by can could did do does doing
during each few for from had has have having he her here hers him his how i if in into is it its me more most my no nor
not of off on once only or other our out over own same she should so some such than that the their them then there these
they this those through to too under until up was we were what when where which while who whom whose why will with would
you your
"""
STOP_WORDS = frozenset(_STOP.split())


def index_form(text: str) -> str:
    """The text as it is given to the tokenizer. Deterministic: deleting from the index needs the same form again."""
    if text.isascii():
        return text
    return CJK_RUN.sub(lambda run: f" {' '.join(pairs(run[0]))} ", unicodedata.normalize("NFKC", text))


def pairs(run: str) -> list[str]:
    """Overlapping character pairs, then the last character alone (so that every character begins a token)."""
    return [run[i : i + 2] for i in range(len(run) - 1)] + [run[-1:]]


def fold(text: str) -> str:
    """Lower case without diacritics, as ``unicode61 remove_diacritics 2`` folds."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.lower())
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)


def words(text: str) -> list[str]:
    """Folded words in order; a CJK run is one word."""
    return _WORD.findall(fold(text))


def query_terms(query: str) -> list[str]:
    """The distinct terms to look for: stop words dropped when other words remain, CJK runs as pairs."""
    found: dict[str, None] = {}
    for word in words(query):
        if CJK_RUN.match(word) and len(word) > 1:
            found.update(dict.fromkeys(pairs(word)[:-1]))
        else:
            found[word] = None
    content = [term for term in found if term not in STOP_WORDS]
    return (content or list(found))[:MAX_TERMS]


def match_expression(terms: list[str]) -> str:
    """An FTS5 query: every term quoted, any may match. A single CJK character matches as a prefix of its pairs."""
    return " OR ".join(f'"{term}"*' if len(term) == 1 and CJK_RUN.match(term) else f'"{term}"' for term in terms)
