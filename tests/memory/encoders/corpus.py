"""The small corpora that floors are measured on, and the measure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from memory.ports import Encoder

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Corpus:
    """Documents, and questions with the position of the one that answers them."""

    documents: list[str]
    questions: list[tuple[str, int]]


def load(name: str) -> Corpus:
    """``english`` or ``cjk``."""
    raw = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    places = {document["id"]: place for place, document in enumerate(raw["documents"])}
    return Corpus(
        [document["text"] for document in raw["documents"]],
        [(question["text"], places[question["document"]]) for question in raw["questions"]],
    )


def floor(name: str) -> float:
    """A pinned figure. They may rise; one that falls is a regression."""
    value: float = json.loads((DATA / "floors.json").read_text("utf-8"))[name]
    return value


def recall_at_1(encoder: Encoder, corpus: Corpus, distractors: list[str] | None = None) -> float:
    """Share of questions whose document has the highest cosine, ``distractors`` included among the candidates."""
    keys = encoder.encode_documents(corpus.documents + (distractors or []))
    hits = [int((keys @ encoder.encode_query(text)).argmax()) == place for text, place in corpus.questions]
    return sum(hits) / len(hits)
