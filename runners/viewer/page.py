"""The viewer as HTML: one self-contained file of a recorded session, or the shell of the live page.

No text of a session ever stands in markup: it travels as JSON in a script element that is never executed, with every
``<``, ``>`` and ``&`` escaped, and enters the page through ``textContent`` alone. The content security policy lets one
style and one script run, by their hashes, and no request leave.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files

from memory.errors import MemoryFault
from memory.records import JsonValue
from runners.errors import UsageFault
from runners.viewer import wire
from runners.viewer.grid import packed
from runners.viewer.recorded import Recorded
from runners.viewer.replan import Replanner

MODULES = ("codec", "dom", "levels", "embedded", "remote", "explain", "canvas", "panels", "compare", "find", "app")
"""Scripts in the order in which each has what it imports before it."""
SCRIPTS, STYLE = (*(f"{name}.js" for name in MODULES), "sessions.js"), "viewer.css"
"""Files that the live page loads."""
TEXT_CHARS = 24_000
"""Of one text at one level."""
ALL_TEXT_CHARS = 40_000_000
DECIDED = 300_000
"""Chunk decisions (steps times chunks) in a file; a longer session holds every n-th step's."""
PAGE = 64
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"\{\{(\w+)\}\}")
_EXPORT = re.compile(r"^export ", re.MULTILINE)


async def recorded_page(session: Recorded) -> str:
    """The whole session in one file."""
    data: wire.Tree = {
        "head": await wire.head(session, live=False),
        "rows": wire.rows(session, 1, session.last),
        "changes": _changes(session),
        "chunks": await _chunks(session),
        "decisions": await _decisions(session),
    }
    return html(data, session.name)


def html(data: wire.Tree, title: str) -> str:
    """The page around its data."""
    style, script = static(STYLE), bundle()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": escaped_text(title),
        "style": style,
        "body": static("body.html").replace("{{home}}", "#"),
        "script": script,
        "data": escaped_json(data),
    }
    # one pass: what is put in is not looked at again
    return _PART.sub(lambda match: parts[match[1]], static("file.html"))


def shell(name: str, **parts: str) -> str:
    """A live page: markup only, its data is asked for by its script."""
    body = static("body.html").replace("{{home}}", f"{parts['base']}/")
    values = {key: escaped_text(value).replace('"', "&quot;") for key, value in parts.items()} | {"body": body}
    return _PART.sub(lambda match: values[match[1]], static(name))


def bundle() -> str:
    """The modules as one script: their imports are what stands before them."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", static(f"{name}.js"))) for name in MODULES)


def static(name: str) -> str:
    """A file of the page."""
    return (files("runners.viewer") / "static" / name).read_text("utf-8")


def escaped_json(value: JsonValue) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def escaped_text(text: str) -> str:
    """A text between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _changes(session: Recorded) -> wire.Tree:
    heads, chunks, codes = packed(session.grid.changes)
    return {
        "heads": wire.squeezed(heads.astype("<i4")),
        "chunks": wire.squeezed(chunks.astype("<i4")),
        "codes": wire.squeezed(codes.astype("<i1")),
    }


async def _chunks(session: Recorded) -> list[JsonValue]:
    """Every chunk at every level, within `ALL_TEXT_CHARS`: a long session's texts are cut shorter."""
    count = max(1, len(session.facts))
    limit = max(400, min(TEXT_CHARS, ALL_TEXT_CHARS // count))
    found: list[JsonValue] = []
    for first in range(1, len(session.facts) + 1, PAGE):
        numbers = range(first, min(first + PAGE, len(session.facts) + 1))
        found += await chunk_texts(session, numbers, limit)
    return found


async def chunk_texts(session: Recorded, numbers: Sequence[int], limit: int) -> list[JsonValue]:
    """Chunks at every level. Raises NotStored."""
    views = await session.summaries(numbers)
    return [
        wire.texts(session, chunk, [view for view in views if view.chunk == chunk.step.number], limit)
        for chunk in await session.chunks(numbers)
    ]


async def _decisions(session: Recorded) -> wire.Tree:
    """Steps decided again, as many as there is room for, evenly spread; the last one is always there."""
    steps = sorted(session.plans)
    total = sum(session.plans[step].recent_from for step in steps)
    stride = max(1, -(-total // DECIDED))
    chosen = sorted({*steps[::stride], *steps[-1:]})
    found: dict[str, JsonValue] = {}
    try:
        planner = await Replanner.open(session)
        for step in chosen:
            found[str(step)] = await _decision(planner, step)
    except UsageFault as fault:
        return {"stride": stride, "steps": found, "problem": str(fault)}
    return {"stride": stride, "steps": found, "problem": ""}


async def _decision(planner: Replanner, step: int) -> JsonValue:
    try:
        return wire.decision(await planner.step(step))
    except MemoryFault as fault:
        return {"problem": str(fault)}
