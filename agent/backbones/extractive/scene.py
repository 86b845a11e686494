"""Reading a rendered request: question, what each visible chunk shows at its level, and what is legal now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.dialects.legal import READ_FILES
from memory.records import JsonValue, Message, Request

_HEADER = re.compile(r"^### (?:(/?history)\b.*|c(\d{1,9})(?:[-–]c?\d{1,9})?(?: (.*))?)$", re.MULTILINE)
_LABEL = re.compile(r"observation(?: \(([^,)\s]*)(?: c(\d+))?(?:-c\d+)?(?:, (\w+))?\))?$")
_ACTION = re.compile(r"^(?:action: )?(search|visit|glimpse|python|answer|\w+(?= \{)) (\S.*)$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s\"'\]]+")
_OBSERVATION = re.compile(r"^observation(?: \((\w+)\))?: ", re.MULTILINE)
_LEVELS = ("full", "detailed", "brief")
_STEP = re.compile(r"\bStep \d+ of this question, from c(\d+) on; pages visited: (\d+)")
_LEFT = re.compile(r"\bSteps left: (\d+)")
_ASKED = "Asked already, do not repeat: "


@dataclass(frozen=True, slots=True)
class Block:
    """What one chunk shows. ``level``: recent, full, detailed, brief, placeholder. ``tool`` "" when it cannot be told.

    ``text`` is the observation alone where it can be told apart. ``current``: it belongs to the question in force.
    """

    chunk: int
    level: str
    tool: str
    text: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    failed: bool = False
    current: bool = True

    @property
    def whole(self) -> bool:
        return self.level in ("recent", "full")

    def argument_texts(self, name: str) -> list[str]:
        """The texts of a list argument, or of a single one."""
        value = self.arguments.get(name)
        items = value if isinstance(value, list) else [value]
        return [item for item in items if isinstance(item, str)]


@dataclass(frozen=True, slots=True)
class Legal:
    """The actions that the schema allows."""

    search: bool = False
    answer: bool = False
    urls: tuple[str, ...] = ()
    glimpses: tuple[str, ...] = ()
    max_queries: int = 1
    files: tuple[str, ...] = ()
    """Attached files that may be read."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the reader knows. ``asked``, ``visits``: for this question, as far as can be told."""

    question: str
    blocks: tuple[Block, ...]
    legal: Legal
    asked: tuple[str, ...] = ()
    visits: int = 0
    steps_left: int | None = None
    files_read: tuple[tuple[str, int], ...] = ()
    """The last part read of each attached file for this question, by name and number from 1."""


def read_scene(request: Request) -> Scene:
    """Never raises on any text: what cannot be read is left out."""
    question = ""
    blocks: list[Block] = []
    actions: list[dict[str, JsonValue]] = []
    for message in request.messages:
        if message.role == "assistant":
            actions = list(_actions(message))
        elif message.role != "system":
            if not question and not _HEADER.match(message.content):
                question = message.content.removeprefix("Question:").strip()
                continue
            blocks.extend(_blocks(message.content, actions))
            actions = []
    schema = request.schema or {}
    description = str(schema.get("description", ""))
    step, left = _STEP.search(description), _LEFT.search(description)
    blocks = _mark_current(blocks, int(step[1]) if step else 0)
    seen = sum(block.tool == "visit" for block in blocks if block.current)
    searches = [block for block in blocks if block.tool == "search" and block.current]
    asked = [query for block in searches for query in block.argument_texts("queries")]
    if _ASKED in description:
        asked.extend(description.split(_ASKED, 1)[1].split(" | "))
    return Scene(
        question=question,
        blocks=tuple(blocks),
        legal=_legal(schema),
        asked=tuple(asked),
        visits=int(step[2]) if step else seen,
        steps_left=int(left[1]) if left else None,
        files_read=tuple(_files_read(description)),
    )


def _files_read(description: str) -> Iterator[tuple[str, int]]:
    at = description.find(READ_FILES)
    if at < 0:
        return
    try:
        parts, _ = json.JSONDecoder().raw_decode(description, at + len(READ_FILES))
    except (ValueError, RecursionError):
        return
    for part in parts if isinstance(parts, list) else []:
        match part:
            case [str() as name, int() as number]:
                yield name, number


def _actions(message: Message) -> Iterator[dict[str, JsonValue]]:
    for line in message.content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _blocks(text: str, actions: Sequence[dict[str, JsonValue]]) -> Iterator[Block]:
    """The blocks of one user message: recent observations, or the whole history."""
    headers = list(_HEADER.finditer(text))
    waiting = list(actions)
    for index, header in enumerate(headers):
        if header[1] is not None:
            continue
        end = headers[index + 1].start() if index + 1 < len(headers) else len(text)
        chunk, label, body = int(header[2]), (header[3] or "").strip(), text[header.end() : end].strip("\n")
        observed = _LABEL.match(label)
        if observed:
            arguments = waiting.pop(0) if waiting else {}
            tool = observed[1] or str(arguments.get("action", ""))
            failed = observed[3] is not None
            yield Block(chunk, "recent", tool, "" if observed[2] else body, arguments, failed)
            if observed[2] and not failed:
                # a glimpse shows another chunk in full, under a header line of its own
                yield _summary_block(int(observed[2]), "recent", body.split("\n", 2)[-1])
        elif label in _LEVELS:
            yield _summary_block(chunk, label, body)
        elif label.startswith("answered"):
            yield Block(chunk, "placeholder", "answered", label)
        else:
            tool, _, rest = label.partition(" ")
            yield Block(chunk, "placeholder", tool, rest)


def _summary_block(chunk: int, level: str, body: str) -> Block:
    """A chunk's own text at a level: its action line (among the first ones) and what it observed."""
    if body.startswith(("question: ", "answer: ")):
        return Block(chunk, level, "answered", body)
    head = "\n".join(body.split("\n", 4)[:4])
    action = _ACTION.search(head)
    if action is None:
        return Block(chunk, level, "", body)
    observation = _OBSERVATION.search(body, action.end())
    failed = observation is not None and observation[1] is not None
    text = body[observation.end() if observation else action.end() :]
    return Block(chunk, level, action[1], text.strip("\n"), _arguments(action[1], action[2]), failed)


def _arguments(tool: str, text: str) -> dict[str, JsonValue]:
    """Arguments as JSON, whole or cut, or the first of them as plain text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    if tool == "visit":
        return {"urls": list(_URL.findall(text))}
    return {"queries": [text]} if tool == "search" and not text.startswith("{") else {}


def _mark_current(blocks: list[Block], first: int) -> list[Block]:
    """``first``: chunk with which the question in force began; 0 unknown: after the last answer that is visible."""
    answered = max((block.chunk for block in blocks if block.tool == "answered"), default=0)
    first = first or answered + 1
    return [replace(block, current=block.chunk >= first) for block in blocks]


def _legal(schema: Mapping[str, JsonValue]) -> Legal:
    branches = schema.get("anyOf")
    search, answer, most = False, False, 1
    urls: list[str] = []
    glimpses: list[str] = []
    files: list[str] = []
    for branch in branches if isinstance(branches, list) else [schema]:
        properties = branch.get("properties") if isinstance(branch, dict) else None
        if not isinstance(properties, dict):
            continue
        match _enum(properties.get("action")):
            case ["search"]:
                search = True
                wanted = properties.get("queries")
                limit = wanted.get("maxItems") if isinstance(wanted, dict) else None
                most = limit if isinstance(limit, int) else 4
            case ["answer"]:
                answer = True
            case ["visit"]:
                listed = properties.get("urls")
                urls = _enum(listed.get("items")) if isinstance(listed, dict) else []
            case ["glimpse"]:
                glimpses = _enum(properties.get("chunk_id"))
            case ["parse_file"]:
                files = _enum(properties.get("file"))
            case _:
                pass
    return Legal(search, answer, tuple(urls), tuple(glimpses), most, tuple(files))


def _enum(value: JsonValue) -> list[str]:
    items = value.get("enum") if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
