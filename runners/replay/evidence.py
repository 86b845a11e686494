"""Evidence recall on dialogue memories (LongMemEval, LoCoMo): turns are chunks, the question is asked at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.ingest import clean_step
from memory.plan import FloatArray
from memory.records import Level, Step
from memory.sanitize import sanitize
from memory.stored import Question
from runners.errors import UsageFault
from runners.replay.engine import Shown, Walk
from runners.replay.jsonlines import content, lines
from runners.replay.planted import mentions
from runners.replay.prepare import Prepared, Toolkit, encode_queries
from runners.replay.recording import Recording
from runners.replay.samples import Sample
from runners.replay.sharing import Shared
from runners.replay.traffic import Traffic
from runners.replay.working import Job, Outcome, Settings

SHOWN, READABLE = "evidence_recall", "answer_in_evidence"


@dataclass(frozen=True, slots=True)
class Asking:
    """A question about a dialogue: its evidence as chunk numbers, its answer as text."""

    name: str
    kind: str
    question: str
    answer: str
    evidence: tuple[int, ...]


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
    haystack_dates: list[str] = Field(default_factory=list)
    haystack_refs: list[str] = Field(default_factory=list)
    haystack_sessions: list[list[_Turn]] = Field(default_factory=list)


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """Dialogues from a folder or file of LongMemEval, or a file of LoCoMo; questions without evidence are left out.

    Raises UsageFault naming file and line.
    """
    if path.is_dir():
        found = [p for p in (path / "s_questions.jsonl.gz", path / "s_questions.jsonl") if p.is_file()]
        if not found:
            raise UsageFault(f"{path}: no s_questions.jsonl or s_questions.jsonl.gz")
        path = found[0]
    if path.name.endswith((".json", ".json.gz")):
        yield from _whole_file(path)
        return
    sessions = _sessions(path)
    for number, value in lines(path):
        yield from _long_mem(value, sessions, f"{path}:{number}")


def _sessions(path: Path) -> Mapping[str, list[_Turn]]:
    beside = path.with_name(path.name.replace("questions", "sessions"))
    if beside == path or not beside.is_file():
        return {}
    found: dict[str, list[_Turn]] = {}
    for number, value in lines(beside):
        session = _checked_session(value, f"{beside}:{number}")
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


def _long_mem(value: object, sessions: Mapping[str, list[_Turn]], where: str) -> Iterator[Dialogue]:
    if isinstance(value, str):
        raise UsageFault(value)
    try:
        row = _Row.model_validate(value)
    except ValidationError as fault:
        raise UsageFault(f"{where}: {problem(fault)}") from fault
    missing = [ref for ref in row.haystack_refs if ref not in sessions]
    if missing:
        raise UsageFault(f"{where}: haystack_refs: no session {missing[0]!r}")
    haystack = row.haystack_sessions or [sessions[ref] for ref in row.haystack_refs]
    dates = [*row.haystack_dates, *[""] * len(haystack)]
    steps: list[Step] = []
    evidence: list[int] = []
    for date, turns in zip(dates, haystack, strict=False):
        for turn in turns:
            steps.append(turn_step(len(steps) + 1, date, turn.role, turn.content))
            if turn.has_answer:
                evidence.append(len(steps))
    if not evidence:
        return
    asking = Asking(row.question_id, row.question_type, sanitize(row.question), str(row.answer), tuple(evidence))
    yield Dialogue(dialogue(row.question_id, "longmemeval", steps), (asking,))


def _whole_file(path: Path) -> Iterator[Dialogue]:
    try:
        rows = json.loads(content(path))
    except ValueError as fault:
        raise UsageFault(f"{path}: not JSON: {fault}") from fault
    if not isinstance(rows, list):
        raise UsageFault(f"{path}: a list of conversations or questions expected")
    for number, row in enumerate(rows, start=1):
        where = f"{path}: entry {number}"
        if isinstance(row, dict) and "conversation" in row:
            yield _locomo(row, where)
        else:
            yield from _long_mem(row, {}, where)


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
                numbers[turn["dia_id"]] = len(steps)
        asked = [_asking(at, item, numbers) for at, item in enumerate(row.get("qa", []))]
    except (KeyError, TypeError, AttributeError) as fault:
        raise UsageFault(f"{where}: not a LoCoMo conversation: {fault!r}") from fault
    name = str(row.get("sample_id", where))
    return Dialogue(dialogue(name, "locomo", steps), tuple(item for item in asked if item is not None))


def _asking(at: int, item: Mapping[str, Any], numbers: Mapping[str, int]) -> Asking | None:
    """None for adversarial questions (category 5) and those whose references do not resolve."""
    parts = [part for text in item.get("evidence", []) for part in str(text).replace(";", " ").split()]
    evidence = tuple(sorted({numbers[part] for part in parts if part in numbers}))
    if item.get("category") == 5 or not evidence:
        return None
    return Asking(
        f"q{at}", f"category-{item.get('category')}", sanitize(item["question"]), str(item.get("answer", "")), evidence
    )


def turn_step(number: int, date: str, speaker: str, text: str) -> Step:
    """A turn of a dialogue as a step."""
    stamp = f"[{date}] " if date else ""
    return clean_step(Step(number, "turn", thought=f"{stamp}{speaker}: {text}"))


def dialogue(name: str, family: str, steps: Sequence[Step]) -> Recording:
    """A dialogue as a recording: nothing is asked until its end."""
    return Recording(name, family, tuple(steps), (Question(0, "", 1, 0.0),))


@dataclass(frozen=True)
class EvidenceJob(Job):
    """A dialogue under every variant: one context for each question."""

    asked: tuple[Asking, ...] = ()

    def run(self, tools: Toolkit, settings: Settings) -> list[Outcome]:
        """The state text is the question alone; nothing of one question is known to the next."""
        shared = Shared(self.recording, tools)
        step = len(self.recording.steps) + 1
        outcomes = []
        for position, variant in self.variants:
            run = shared.of(variant)
            vectors = encode_queries(tools, [run.state(step, asking.question) for asking in self.asked])
            scores = [run.scan(vector, run.old(step)) for vector in vectors]
            traffic = Traffic(run, rendering=False)
            samples = tuple(self._asked(Walk(run, variant), step, scores, traffic))
            outcomes.append(
                Outcome(position, self.recording.family, self.recording.id, samples, traffic.totals(), run.encoder_id)
            )
        return outcomes

    def _asked(self, walk: Walk, step: int, scores: Sequence[FloatArray], traffic: Traffic) -> Iterator[Sample]:
        for asking, cosines in zip(self.asked, scores, strict=True):
            shown = walk.ask(step, asking.question, cosines)
            traffic.see(shown)
            unit = f"{self.recording.id}/{asking.name}"
            share = sum(is_shown(shown, number) for number in asking.evidence) / len(asking.evidence)
            for stratum in ("all", asking.kind):
                yield Sample(SHOWN, stratum, unit, share)
            stated = asking.answer.strip() and any(
                mentions(walk.run.texts[number - 1], asking.answer) for number in asking.evidence
            )
            if stated:
                read = any(can_read(walk.run, shown, number, asking.answer) for number in asking.evidence)
                for stratum in ("all", asking.kind):
                    yield Sample(READABLE, stratum, unit, float(read))


def is_shown(shown: Shown, number: int) -> bool:
    """Whether a chunk is shown at DETAILED or FULL (or stands in the recent window)."""
    if shown.decision is None:
        return False
    return number > len(shown.codes) or int(shown.codes[number - 1]) >= Level.DETAILED


def can_read(run: Prepared, shown: Shown, number: int, answer: str) -> bool:
    """Whether an answer can be read in what is shown of a chunk, or in a text that stands for it."""
    if shown.decision is None:
        return False
    code = int(Level.FULL) if number > len(shown.codes) else int(shown.codes[number - 1])
    if code >= 0 and mentions(run.view_text(number - 1, Level(code)), answer):
        return True
    blocks = shown.decision.fitted.blocks
    return any(block.first <= number <= block.last and mentions(block.text, answer) for block in blocks)
