"""From what a model wrote to a value: lenient in, strict out.

The ladder: strict JSON; then repair (trailing commas, single quotes, comments, a missing bracket). Size, depth and
digits are bounded first, and nothing but `ParseFailure` comes out. Text that simply stops is never completed: it is
reported as cut, because a guessed half of an action must not run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from agent.errors import ParseFailure
from memory.records import JsonValue

MAX_JSON_CHARS = 400_000
MAX_DEPTH = 40
MAX_DIGITS = 300
MAX_BITS = 1000
QUOTED_CHARS = 200
"""How much of a broken text a failure quotes."""

_NAME = re.compile(r"[A-Za-z_][\w.\-]{0,63}", re.ASCII)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_FENCE = re.compile(r"\A```[\w-]*\s*\n(.*?)\n?```\Z", re.DOTALL)
_OPENERS = {"[": "]", "{": "}"}
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


def parse_json(text: str, *, closed: bool = False) -> JsonValue:
    """A JSON value from model text. ``closed``: an end marker followed the text, so a missing bracket is a slip and
    not a cut. Raises ParseFailure, with ``cut`` when the text stops inside a value."""
    text = text.strip()
    if len(text) > MAX_JSON_CHARS:
        raise ParseFailure(f"the JSON has {len(text)} characters; at most {MAX_JSON_CHARS} are read")
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=_bounded_int, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        depth, in_string = _extent(text)
        if depth.deepest > MAX_DEPTH:
            raise ParseFailure(f"the JSON is nested more than {MAX_DEPTH} levels deep") from error
        if in_string or (depth.open > 0 and not closed):
            raise ParseFailure(f"the JSON stops before its end: {quoted(text, tail=True)}", cut=True) from error
        value = _repaired(text, error)
    return _clean(value)


def parse_object(text: str, *, closed: bool = False) -> dict[str, JsonValue]:
    """As `parse_json`; an empty text is the empty object, anything but an object is a failure."""
    if not text.strip():
        return {}
    value = parse_json(text, closed=closed)
    if not isinstance(value, dict):
        raise ParseFailure(f"expected a JSON object, got {_kind(value)}: {quoted(text)}")
    return value


def clean_object(value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Arguments that were read elsewhere, with only what a store can hold. Raises ParseFailure for extreme nesting."""
    return {scalars(key): _clean(item, 1) for key, item in value.items()}


def call_of(value: JsonValue) -> tuple[str, dict[str, JsonValue]]:
    """Name and arguments of ``{"name", "arguments"}`` and its common variants. Raises ParseFailure."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        raise ParseFailure(f"a tool call is a JSON object with name and arguments, not {_kind(value)}")
    function = value.get("function")
    if isinstance(function, dict):
        value = function
    name = value.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name.strip()):
        raise ParseFailure(f"a tool call needs a name, got {quoted(repr(name))}")
    key = next((key for key in _ARGUMENT_KEYS if key in value), None)
    found: JsonValue
    found = {k: v for k, v in value.items() if k not in ("name", "type", "id")} if key is None else value[key]
    if isinstance(found, str):  # encoded twice
        found = parse_object(found, closed=True)
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise ParseFailure(f"the arguments of {name.strip()} must be a JSON object, not {_kind(found)}")
    return name.strip(), found


def valid_name(name: str) -> str:
    """The name, stripped. Raises ParseFailure for what no tool can be called."""
    if not _NAME.fullmatch(name.strip()):
        raise ParseFailure(f"not a tool name: {quoted(repr(name))}")
    return name.strip()


def nearest_name(name: str) -> str:
    """The name as something that can be stored and answered: the toolset then says which names there are."""
    if _NAME.fullmatch(name.strip()):
        return name.strip()
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name.strip()[:64]).lstrip("0123456789.-") or "unnamed"


def unfenced(text: str) -> str:
    """Without the Markdown code fence that encloses it, if one does."""
    stripped = text.strip()
    match = _FENCE.match(stripped)
    return match.group(1) if match else stripped


def quoted(text: str, *, tail: bool = False) -> str:
    """A short quotation for an error message."""
    flat = text if len(text) <= QUOTED_CHARS else ("…" + text[-QUOTED_CHARS:] if tail else text[:QUOTED_CHARS] + "…")
    return scalars(flat)


def scalars(text: str) -> str:
    """Text without lone surrogates, which no UTF-8 store can hold."""
    return _SURROGATE.sub("\ufffd", text)


class _Depth:
    """Brackets open at the end of a text, and at most."""

    __slots__ = ("deepest", "open")

    def __init__(self) -> None:
        self.open = 0
        self.deepest = 0


def _extent(text: str) -> tuple[_Depth, bool]:
    """Bracket depth outside strings, and whether the text ends inside a string (either kind of quote)."""
    depth = _Depth()
    quote = ""
    escaped = False
    for char in text:
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in _OPENERS:
            depth.open += 1
            depth.deepest = max(depth.deepest, depth.open)
        elif char in "]}":
            depth.open -= 1
    return depth, bool(quote)


def _repaired(text: str, error: Exception) -> object:
    # the library is code for broken input and breaks on some of it; what it raises then is not documented
    import json_repair

    try:
        value: object = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as again:
        raise ParseFailure(f"not JSON ({error}): {quoted(text)}") from again
    if isinstance(value, str) or value is None:
        raise ParseFailure(f"not JSON ({error}): {quoted(text)}") from error
    return value


def _clean(value: object, depth: int = 0) -> JsonValue:
    """Only what JSON can say and a store can hold: finite numbers, no lone surrogates, text keys."""
    if depth > MAX_DEPTH:
        raise ParseFailure(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return scalars(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {scalars(str(key)): _clean(item, depth + 1) for key, item in value.items()}
    raise ParseFailure(f"not a JSON value: {quoted(repr(value))}")


def _no_constant(_: str) -> None:
    """NaN and the infinities are not JSON; they say that there is no number."""


def _bounded_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _kind(value: JsonValue) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
