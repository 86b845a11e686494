"""A server's result as text: what is text is shown, what is not is named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memory.records import JsonValue, Source
from memory.sanitize import cap, sanitize

MAX_BLOCKS = 200
MAX_SOURCES = 16
MAX_URI = 2_000
SHORTEST_SECRET = 6
"""A shorter value would cut holes into ordinary text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as the model sees it. ``failed``: the server says that the call did not work."""

    text: str
    failed: bool = False
    sources: tuple[Source, ...] = ()


def shown(result: Mapping[str, JsonValue], limit: int, secrets: Iterable[str] = ()) -> Shown:
    """``result``: of ``tools/call``, in the protocol's own field names. At most ``limit`` characters; ``secrets`` are
    values that the server was given: they do not come back."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    parts = [_block(block) for block in blocks[:MAX_BLOCKS]]
    structured = result.get("structuredContent")
    if structured is not None and not any(part.strip() for part in parts):
        parts = [json.dumps(structured, ensure_ascii=False)]
    text = sanitize("\n".join(parts))
    if len(blocks) > MAX_BLOCKS:
        text += f"\n[… {len(blocks) - MAX_BLOCKS} parts left out]"
    return Shown(cap(redacted(text, secrets), limit) or "[no output]", result.get("isError") is True, _sources(blocks))


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the values that the server was given, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def _block(block: Mapping[str, JsonValue]) -> str:
    kind = block.get("type")
    if kind == "text":
        return _text(block.get("text"))
    if kind in ("image", "audio"):
        return f"[{_label(block, 'mimeType', str(kind))}, {_size(block.get('data'))}: not shown]"
    if kind == "resource_link":
        about = _text(block.get("description"))[:500]
        return f"[resource {_label(block, 'uri', 'without a URI')}: {_label(block, 'name', '')}] {about}".rstrip()
    if kind == "resource":
        inner = block.get("resource")
        resource = inner if isinstance(inner, dict) else {}
        head = f"[resource {_label(resource, 'uri', 'without a URI')}]"
        if isinstance(resource.get("text"), str):
            return f"{head}\n{_text(resource['text'])}"
        return f"{head[:-1]}, {_label(resource, 'mimeType', 'binary')}, {_size(resource.get('blob'))}: not shown]"
    return f"[a part of kind {_text(kind)[:40]!r}: not shown]"


def _sources(blocks: Iterable[Mapping[str, JsonValue]]) -> tuple[Source, ...]:
    """Web addresses of the resources in a result, so that an answer can cite them."""
    found: dict[str, str] = {}
    for block in blocks:
        inner = block.get("resource") if block.get("type") == "resource" else block
        if isinstance(inner, dict) and block.get("type") in ("resource", "resource_link"):
            uri = _text(inner.get("uri"))
            if uri.startswith(("https://", "http://")) and len(uri) <= MAX_URI:
                found.setdefault(uri, _text(inner.get("title") or inner.get("name"))[:200])
    return tuple(Source(uri, title) for uri, title in list(found.items())[:MAX_SOURCES])


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _label(block: Mapping[str, JsonValue], key: str, otherwise: str) -> str:
    return " ".join(_text(block.get(key)).split())[:MAX_URI] or otherwise


def _size(encoded: JsonValue) -> str:
    return f"{len(_text(encoded)) * 3 // 4:,} bytes"
