"""Dialogue memories (LongMemEval, LoCoMo): turns are chunks, the question is asked at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.ingest import clean_step
from memory.records import Step
from memory.sanitize import sanitize
from memory.stored import Question
from runners.errors import UsageFault
from runners.replay.jsonlines import content, lines
from runners.replay.recording import Recording

ABSTENTION = "_abs"
"""In the id of a LongMemEval question that the haystack cannot answer."""
ADVERSARIAL = 5
"""Category of LoCoMo questions that the conversation cannot answer."""
_REFERENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Asking:
    """A question about a dialogue: its evidence as chunk numbers, its answer as text.

    ``asked_on``: the date on which it is asked, where the set has one. ``unresolved``: references to evidence that
    point at no turn.
    """

    name: str
    kind: str
    question: str
    answer: str
    evidence: tuple[int, ...]
    asked_on: str = ""
    answerable: bool = True
    unresolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A haystack and what is asked of it."""

    recording: Recording
    asked: tuple[Asking, ...]


class _Turn(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str
    content: str
    has_answer: bool | None = False


class _Session(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    ref: str
    turns: list[_Turn]


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question_id: str
    question_type: str = ""
    question: str
    answer: Any = ""
    question_date: str = ""
    haystack_dates: list[str] = Field(default_factory=list)
    haystack_refs: list[str] = Field(default_factory=list)
    haystack_sessions: list[list[_Turn]] = Field(default_factory=list)


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """As `read_all`, without the questions that have no evidence, and without LoCoMo's adversarial ones."""
    for dialogue in read_all(path):
        labelled = dialogue.recording.family == "longmemeval"
        asked = tuple(item for item in dialogue.asked if item.evidence and (labelled or item.answerable))
        if asked or not labelled:
            yield Dialogue(dialogue.recording, asked)


def read_all(path: Path) -> Iterator[Dialogue]:
    """Dialogues from a folder or file of LongMemEval, or of LoCoMo, with everything that is asked of them.

    Raises UsageFault naming file and line.
    """
    path, *beside = data_files(path)
    if path.name.endswith((".json", ".json.gz")):
        yield from _whole_file(path)
        return
    sessions = _sessions(beside[0]) if beside else {}
    for number, value in lines(path):
        yield _long_mem(value, sessions, f"{path}:{number}")


def data_files(path: Path) -> list[Path]:
    """The file of a folder (or the file itself) with the questions, then that of the sessions where it stands beside.

    Raises UsageFault."""
    questions = _found(path) if path.is_dir() else path
    sessions = questions.with_name(questions.name.replace("questions", "sessions"))
    return [questions, sessions] if sessions != questions and sessions.is_file() else [questions]


def _found(folder: Path) -> Path:
    """The questions in a folder: ``s_questions`` as lines, or one file as its authors publish it."""
    lined = [path for name in ("s_questions.jsonl.gz", "s_questions.jsonl") if (path := folder / name).is_file()]
    published = sorted(path for pattern in ("longmemeval_s*.json", "locomo*.json") for path in folder.glob(pattern))
    if not (lined or published):
        raise UsageFault(
            f"{folder}: no questions of LongMemEval or LoCoMo: no s_questions.jsonl(.gz), longmemeval_s*.json or "
            "locomo*.json",
            hint="name the file itself, or put the published file into the folder",
        )
    if not lined and len(published) > 1:
        raise UsageFault(f"{folder}: {published[0].name} and {published[1].name}", hint="name one of the files")
    return (lined or published)[0]


def _sessions(path: Path) -> Mapping[str, list[_Turn]]:
    found: dict[str, list[_Turn]] = {}
    for number, value in lines(path):
        session = _checked_session(value, f"{path}:{number}")
        found[session.ref] = session.turns
    return found


def _checked_session(value: object, where: str) -> _Session:
    try:
        return _Session.model_validate(value)
    except ValidationError as fault:
        raise UsageFault(f"{where}: {problem(fault)}") from fault


def problem(fault: ValidationError) -> str:
    """The first problem, in a line."""
    first = fault.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"


def _long_mem(value: object, sessions: Mapping[str, list[_Turn]], where: str) -> Dialogue:
    if isinstance(value, str):
        raise UsageFault(value)
    try:
        row = _Row.model_validate(value)
    except ValidationError as fault:
        raise UsageFault(
            f"{where}: {problem(fault)}", hint="a question as LongMemEval writes it is expected"
        ) from fault
    missing = [ref for ref in row.haystack_refs if ref not in sessions]
    if missing:
        raise UsageFault(
            f"{where}: haystack_refs: no session {missing[0]!r}", hint="sessions stand in s_sessions.jsonl(.gz) beside"
        )
    haystack = row.haystack_sessions or [sessions[ref] for ref in row.haystack_refs]
    if not haystack:
        raise UsageFault(f"{where}: neither haystack_sessions nor haystack_refs: there is nothing to remember")
    name = sanitize(row.question_id)
    dates = [*row.haystack_dates, *[""] * len(haystack)]
    steps: list[Step] = []
    evidence: list[int] = []
    for date, turns in zip(dates, haystack, strict=False):
        for turn in turns:
            steps.append(turn_step(len(steps) + 1, date, turn.role, turn.content))
            if turn.has_answer:
                evidence.append(len(steps))
    asking = Asking(
        name,
        row.question_type,
        sanitize(row.question),
        _answer(row.answer),
        tuple(evidence),
        row.question_date,
        # the type of such a question is that of the answerable one it was made from
        ABSTENTION not in name,
    )
    return Dialogue(dialogue(name, "longmemeval", steps), (asking,))


def _whole_file(path: Path) -> Iterator[Dialogue]:
    try:
        rows = json.loads(content(path))
    except (ValueError, RecursionError) as fault:
        raise UsageFault(f"{path}: not JSON: {fault}") from fault
    if not isinstance(rows, list):
        raise UsageFault(
            f"{path}: a list of conversations or questions expected", hint="name the file as its authors publish it"
        )
    for number, row in enumerate(rows, start=1):
        where = f"{path}: entry {number}"
        if isinstance(row, dict) and "conversation" in row:
            yield _locomo(row, where)
        else:
            yield _long_mem(row, {}, where)


def _locomo(row: Mapping[str, Any], where: str) -> Dialogue:
    conversation = row["conversation"]
    steps: list[Step] = []
    numbers: dict[str, int] = {}
    try:
        for index in range(1, 1 + sum(key.startswith("session_") for key in conversation)):
            date = str(conversation.get(f"session_{index}_date_time", ""))
            for turn in conversation.get(f"session_{index}") or []:
                text = " ".join(part for part in (turn["text"], turn.get("blip_caption", "")) if part)
                steps.append(turn_step(len(steps) + 1, date, turn["speaker"], text))
                numbers.update(dict.fromkeys(_references(turn["dia_id"]), len(steps)))
        asked = tuple(_asking(at, item, numbers) for at, item in enumerate(row.get("qa", [])))
    except (KeyError, TypeError, AttributeError) as fault:
        raise UsageFault(
            f"{where}: not a LoCoMo conversation: {fault!r}",
            hint="session_N lists turns with speaker, dia_id and text; qa lists items with question and category",
        ) from fault
    return Dialogue(dialogue(sanitize(str(row.get("sample_id", where))), "locomo", steps), asked)


def _asking(at: int, item: Mapping[str, Any], numbers: Mapping[str, int]) -> Asking:
    """Nearly no adversarial question has an ``answer``: what it must not be told is the ``adversarial_answer``."""
    parts = [str(part) for part in item.get("evidence", [])]
    known = {number for part in parts for name in _references(part) if (number := numbers.get(name)) is not None}
    lost = [part for part in parts if not any(name in numbers for name in _references(part))]
    category = item.get("category")
    answer = item.get("answer", item.get("adversarial_answer", ""))
    return Asking(
        f"q{at}",
        f"category-{category}",
        sanitize(item["question"]),
        _answer(answer),
        tuple(sorted(known)),
        answerable=category != ADVERSARIAL,
        unresolved=tuple(lost),
    )


def _answer(given: object) -> str:
    """A gold as text: some are numbers, and none is no text."""
    return "" if given is None else str(given)


def _references(text: str) -> list[str]:
    """Turns that a reference names, as ``D8:6``: some hold several (``D8:6; D9:17``), some a colon too many
    (``D:11:26``) or a zero (``D30:05``)."""
    return [f"D{int(session)}:{int(turn)}" for session, turn in _REFERENCE.findall(str(text))]


def turn_step(number: int, date: str, speaker: str, text: str) -> Step:
    """A turn of a dialogue as a step."""
    stamp = f"[{date}] " if date else ""
    return clean_step(Step(number, "turn", thought=f"{stamp}{speaker}: {text}"))


def dialogue(name: str, family: str, steps: Sequence[Step]) -> Recording:
    """A dialogue as a recording: nothing is asked until its end."""
    return Recording(name, family, tuple(steps), (Question(0, "", 1, 0.0),))
