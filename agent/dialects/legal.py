"""The legal actions of a step as a JSON schema, and the check of a reply against it.

A small model is lifted far more by what it may do next than by how its reply is spelled: first `search`, then a page
out of the list just found, then an answer or another round (phase-constrained ReAct).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from agent.dialects.base import Situation
from agent.dialects.refs import inlined
from memory.records import JsonValue, ToolSpec

MAX_URLS = 64
MAX_GLIMPSES = 256
MAX_QUERIES = 4
MAX_ASKED = 24
MAX_SMALL_FILES = 4
"""Attached files that a small model is made to read before it searches."""
MAX_SMALL = 12
"""URLs and steps that a small model chooses from."""
MAX_SMALL_ANSWER = 160
"""Characters: a small model goes on copying."""
SMALL_PAGES = 2
"""Pages that a small model reads at once; then it must answer, because it would look for ever."""
READ_FILES = "Parts of files read: "
"""In the description of a schema, before a JSON list of [name, number of the last part]."""
Schema = Mapping[str, JsonValue]


def legal_schema(tools: Sequence[ToolSpec], situation: Situation, *, small: bool = False) -> dict[str, JsonValue]:
    """What may be done at this step: one object schema, or ``anyOf`` of several. ``answer`` is always reachable.

    The description says what a compressed context may no longer show: pages visited, queries asked. ``small``: for the
    smallest models, which write a thought only to copy it and never stop looking: one search, one visit of the two
    pages that promise most, and the answer, which names the step that shows it.
    """
    offered = {tool.name: tool for tool in tools}
    if small:
        unread = _unread(offered, situation)
        branches = [_small_branch(name, situation, unread) for name in _small_actions(offered, situation, unread)]
    else:
        branches = [_branch(name, offered, situation) for name in legal_actions(list(offered), situation)]
    text = _description(situation)
    if len(branches) == 1:
        return {"description": text, **branches[0]}
    return {"description": text, "anyOf": list(branches)}


def legal_actions(offered: Sequence[str], situation: Situation) -> list[str]:
    """Names of the legal actions, in the order in which they are written into the schema."""
    if situation.steps_left is not None and situation.steps_left <= 1:
        return ["answer"]
    others = [name for name in offered if name not in ("search", "visit", "glimpse")]
    files = "parse_file" in offered
    can_search = "search" in offered
    can_visit = "visit" in offered and bool(situation.listed)
    if situation.task_step <= 1 or not situation.last_tools:
        if situation.task_step <= 1 and can_search:
            return ["search", *_if(files, "parse_file")]
        return [*_if(can_search, "search"), *_if(can_visit, "visit"), *others, "answer"]
    if can_search and "search" in situation.last_tools:
        if can_visit:
            return ["visit", *_if(files, "parse_file")]
        # a second search that lists nothing may be the end of the matter
        return ["search", *_if(files, "parse_file"), *_if(len(situation.queries) > 1, "answer")]
    glimpse = "glimpse" in offered and bool(_glimpses(situation))
    return ["answer", *_if(can_search, "search"), *_if(can_visit, "visit"), *_if(glimpse, "glimpse"), *others]


def _small_actions(offered: Mapping[str, ToolSpec], situation: Situation, unread: Sequence[JsonValue]) -> Sequence[str]:
    """For the smallest models: the attached files, then a search, a visit, the answer."""
    legal = legal_actions(list(offered), situation)
    if unread and "parse_file" in legal:
        return ["parse_file"]
    if "visit" in situation.last_tools:
        return ["answer"]
    return [name for name in legal if name in ("search", "visit", "answer")]


def _unread(offered: Mapping[str, ToolSpec], situation: Situation) -> list[JsonValue]:
    """Names of the first attached files, as far as the tool lists them, that were not read for this question."""
    properties = offered["parse_file"].parameters.get("properties") if "parse_file" in offered else None
    file = properties.get("file") if isinstance(properties, dict) else None
    names = file.get("enum") if isinstance(file, dict) else None
    done = {name for name, _ in situation.files}
    return [name for name in names[:MAX_SMALL_FILES] if name not in done] if isinstance(names, list) else []


def violation(value: JsonValue, schema: Schema) -> str:
    """What is wrong with a value, for a model to mend; empty when nothing is. Knows the keywords that tools use;
    ignores others (``$ref``, formats), which the tool itself checks."""
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return _any_violation(value, [branch for branch in branches if isinstance(branch, dict)])
    wanted = _action_name(schema)
    if wanted and _action_of(value) != wanted:
        return f"action {_short(_action_of(value))} is not legal now; legal: {wanted}"
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"{_short(value)} is not one of {_short(allowed)}"
    kind = schema.get("type")
    if isinstance(kind, str) and not _is_type(value, kind):
        return f"{_short(value)} is not of type {kind}"
    if isinstance(value, dict):
        return _object_violation(value, schema)
    if isinstance(value, list):
        return _list_violation(value, schema)
    if isinstance(value, str) and len(value) < _integer(schema, "minLength", 0):
        return "a text is empty or too short"
    return ""


def _any_violation(value: JsonValue, branches: list[dict[str, JsonValue]]) -> str:
    named = [branch for branch in branches if _action_name(branch) == _action_of(value)]
    if not named and any(map(_action_name, branches)):
        names = ", ".join(filter(None, map(_action_name, branches)))
        return f"action {_short(_action_of(value))} is not legal now; legal: {names}"
    found = [violation(value, branch) for branch in named or branches]
    return "" if "" in found else found[0]


def _object_violation(value: Mapping[str, JsonValue], schema: Schema) -> str:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    missing = [name for name in (required if isinstance(required, list) else []) if name not in value]
    if missing:
        return f"missing {_short(missing)}"
    for name, item in value.items():
        sub = known.get(name)
        if isinstance(sub, dict):
            wrong = violation(item, sub)
            if wrong:
                return f"{name}: {wrong}"
        elif schema.get("additionalProperties") is False:
            return f"unknown property {name!r}"
    return ""


def _list_violation(value: Sequence[JsonValue], schema: Schema) -> str:
    least, most = _integer(schema, "minItems", 0), _integer(schema, "maxItems", 1 << 30)
    if not least <= len(value) <= most:
        return f"{len(value)} items where {least} to {most} are wanted"
    items = schema.get("items")
    if isinstance(items, dict):
        return next(filter(None, (violation(item, items) for item in value)), "")
    return ""


def _is_type(value: JsonValue, kind: str) -> bool:
    if kind in ("integer", "number"):
        return not isinstance(value, bool) and isinstance(value, int if kind == "integer" else (int, float))
    types: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return kind not in types or isinstance(value, types[kind])


def _branch(name: str, offered: Mapping[str, ToolSpec], situation: Situation) -> dict[str, JsonValue]:
    text: dict[str, JsonValue] = {"type": "string"}
    full: dict[str, JsonValue] = {"type": "string", "minLength": 1}
    required: list[str] = []
    match name:
        case "answer":
            fields: dict[str, JsonValue] = {"answer": full}
        case "search":
            fields = {"queries": {"type": "array", "items": full, "minItems": 1, "maxItems": MAX_QUERIES}}
        case "visit":
            one: dict[str, JsonValue] = {"type": "string", "enum": list(situation.listed[-MAX_URLS:])}
            fields = {"urls": {"type": "array", "items": one, "minItems": 1, "maxItems": 1}, "goal": text}
        case "glimpse":
            fields = {"chunk_id": {"type": "string", "enum": list(_glimpses(situation))}}
        case _:
            parameters = inlined(offered[name])
            properties = parameters.get("properties")
            fields = dict(properties) if isinstance(properties, dict) else {}
            names = parameters.get("required")
            required = [str(item) for item in names] if isinstance(names, list) else []
            # an outside tool may have parameters of these names; here they are taken
            for taken in ("thought", "action"):
                fields.pop(taken, None)
            required = [name for name in required if name in fields]
    if name in ("answer", "search", "visit", "glimpse"):
        required = list(fields)
    return {
        "type": "object",
        "properties": {"thought": text, "action": {"type": "string", "enum": [name]}, **fields},
        "required": ["action", *required],
        "additionalProperties": False,
    }


def _small_branch(name: str, situation: Situation, unread: Sequence[JsonValue]) -> dict[str, JsonValue]:
    full: dict[str, JsonValue] = {"type": "string", "minLength": 1}
    match name:
        case "search":
            fields: dict[str, JsonValue] = {"queries": {"type": "array", "items": full, "minItems": 1, "maxItems": 1}}
        case "parse_file":
            fields = {"file": {"type": "string", "enum": list(unread)}}
        case "visit":
            listed: list[JsonValue] = list(situation.listed[-MAX_SMALL:])
            pages = min(SMALL_PAGES, len(listed))
            one: dict[str, JsonValue] = {"type": "string", "enum": listed}
            fields = {"urls": {"type": "array", "items": one, "minItems": pages, "maxItems": pages}}
        case _:
            first = max(1, situation.step - situation.task_step + 1)
            steps = list(range(max(first, situation.step - MAX_SMALL), situation.step))
            fields = {"answer": {**full, "maxLength": MAX_SMALL_ANSWER}}
            if steps:
                fields["source"] = {"type": "string", "enum": [f"c{number}" for number in reversed(steps)]}
    return {
        "type": "object",
        "properties": {"action": {"type": "string", "enum": [name]}, **fields},
        "required": ["action", *fields],
        "additionalProperties": False,
    }


def _glimpses(situation: Situation) -> tuple[str, ...]:
    done = set(situation.glimpsed)
    return tuple(name for name in situation.compressed if name not in done)[-MAX_GLIMPSES:]


def _description(situation: Situation) -> str:
    first = max(1, situation.step - situation.task_step + 1)
    parts = [f"Step {situation.task_step} of this question, from c{first} on; pages visited: {len(situation.visited)}."]
    if situation.steps_left is not None:
        parts.append(f"Steps left: {situation.steps_left}.")
    if situation.files:
        last: dict[str, int] = {}
        for name, number in situation.files:
            last[name] = max(number, last.get(name, 0))
        parts.append(READ_FILES + json.dumps(list(last.items()), ensure_ascii=False))
    if situation.queries:
        asked = " | ".join(" ".join(query.split()) for query in situation.queries[-MAX_ASKED:])
        parts.append(f"Asked already, do not repeat: {asked}")
    return " ".join(parts)


def _action_name(branch: Schema) -> str:
    properties = branch.get("properties")
    action = properties.get("action") if isinstance(properties, dict) else None
    names = action.get("enum") if isinstance(action, dict) else None
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def _action_of(value: JsonValue) -> JsonValue:
    return value.get("action") if isinstance(value, dict) else None


def _integer(schema: Schema, name: str, default: int) -> int:
    value = schema.get(name)
    return value if isinstance(value, int) else default


def _if(condition: bool, name: str) -> Iterable[str]:
    return (name,) if condition else ()


def _short(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
