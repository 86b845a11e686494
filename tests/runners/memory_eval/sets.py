"""Small dialogue memories of our own, in the form of both sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

Plain = Mapping[str, object]
CHATTER = (
    "The weather has been mild and we walked along the canal for an hour before supper.",
    "There was a queue at the bakery again, so I came home without any bread at all.",
    "My neighbour practises the trombone every evening, which takes some getting used to.",
    "We painted the fence green in the end, although blue would have been cheaper.",
    "The train was late twice this week and nobody at the station could say why.",
    "I finally sorted the photographs from the attic into boxes by decade.",
)


def turns(*texts: str, evidence: Sequence[int] = ()) -> list[dict[str, object]]:
    """Turns of user and assistant by turns."""
    return [
        {"role": ("user", "assistant")[at % 2], "content": text, "has_answer": at in evidence}
        for at, text in enumerate(texts)
    ]


def chatter(count: int, start: int = 0) -> list[dict[str, object]]:
    """Turns that no question is about."""
    return turns(*(f"{CHATTER[at % len(CHATTER)]} That was day {at}." for at in range(start, start + count)))


def long_mem_row(name: str, kind: str, question: str, answer: object, told: Sequence[str], **more: object) -> Plain:
    """A question whose evidence is told in a session between two others."""
    sessions = [chatter(10), turns(*told, evidence=[0] if told else []), chatter(10, 40)]
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "answer": answer,
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_dates": ["2023/05/01 (Mon) 09:00", "2023/05/11 (Thu) 09:00", "2023/05/21 (Sun) 09:00"],
        "haystack_sessions": sessions,
        **more,
    }


LONG_MEM = (
    long_mem_row(
        "q1",
        "single-session-user",
        "What is the name of my cat?",
        "Biscuit",
        ["The name of my cat is Biscuit, and what she does is sleep.", "She sounds lovely."],
    ),
    long_mem_row(
        "q2",
        "knowledge-update",
        "Where do I keep the ladder?",
        "the shed",
        ["I keep the ladder in the shed now.", "Good to know where the ladder is."],
    ),
    long_mem_row(
        "q3",
        "single-session-preference",
        "Can you recommend a film for tonight?",
        "The user would prefer old westerns.",
        ["I love old westerns more than any other film.", "Westerns are splendid."],
    ),
    long_mem_row(
        "q4_abs",
        "knowledge-update",
        "What is the name of my parrot?",
        "You did not mention a parrot.",
        ["My cat is called Biscuit.", "Lovely."],
    ),
)


def long_mem(folder: Path, rows: Sequence[Plain] = LONG_MEM) -> Path:
    """A LongMemEval file with its sessions inline."""
    path = folder / "longmemeval_s.json"
    path.write_text(json.dumps(rows))
    return path


def locomo(folder: Path) -> Path:
    """A LoCoMo file of one conversation, with upstream's defects in it."""
    told = ["I sold the red boat in Osk.", "Then you can buy a bicycle.", "Yes, and a tent, a stove and a rope."]
    talk = [str(turn["content"]) for turn in chatter(12)]
    lines = [*talk[:6], *told, *talk[6:]]
    spoken = [
        {"speaker": ("Ann", "Bo")[at % 2], "dia_id": f"D1:{at + 1}", "text": text} for at, text in enumerate(lines)
    ]
    qa = [
        {"question": "Where did Ann sell the boat?", "answer": "Osk", "evidence": ["D1:7"], "category": 4},
        {"question": "What will Ann buy?", "answer": "a tent, a stove", "evidence": ["D1:9; D1:8"], "category": 1},
        {"question": "When was it?", "answer": 2022, "evidence": [], "category": 2},
        {"question": "Is Ann a sailor?", "answer": "Yes; she had a boat", "evidence": ["D"], "category": 3},
        {"question": "Why did Bo sell it?", "adversarial_answer": "old", "evidence": ["D1:7"], "category": 5},
    ]
    conversation = {"speaker_a": "Ann", "speaker_b": "Bo", "session_1_date_time": "8 May 2023", "session_1": spoken}
    path = folder / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": qa}]))
    return path
