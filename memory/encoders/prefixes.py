"""Prefixes that embedding models were trained with, and lose accuracy without."""

from __future__ import annotations

import re

_KNOWN: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"nomic-embed-text"), "search_query: ", "search_document: "),
    (re.compile(r"(?:^|[/_-])e5-(?!.*instruct)"), "query: ", "passage: "),
    (re.compile(r"bge-(?:small|base|large)-en"), "Represent this sentence for searching relevant passages: ", ""),
    (re.compile(r"bge-(?:small|base|large)-zh"), "为这个句子生成表示以用于检索相关文章：", ""),
)


def prefixes_for(model: str) -> tuple[str, str]:
    """(query prefix, document prefix) of a model by its name; empty where none is known (BGE-M3, MiniLM, OpenAI)."""
    name = model.lower()
    for pattern, query, document in _KNOWN:
        if pattern.search(name):
            return query, document
    return "", ""
