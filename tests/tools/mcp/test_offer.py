"""What servers list and answer, as pure functions over anything that JSON can hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.records import JsonValue
from memory.sanitize import sanitize
from tools.mcp.config import McpFault
from tools.mcp.offer import MAX_NAME, MAX_SCHEMA, MAX_TOTAL, Listed, offers
from tools.mcp.results import MAX_BLOCKS, shown

TEXT = st.text(max_size=20)
KEYS = ["type", "properties", "$ref", "required", "items", "anyOf", "enum"]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
NAMES = TEXT | st.sampled_from(["echo", "a.b", "a/b", "x" * 80])
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "resource", "resource_link", "other"]) | JSON},
    optional={"text": JSON, "data": JSON, "mimeType": JSON, "uri": JSON, "name": JSON, "resource": JSON},
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(NAMES, TEXT, st.dictionaries(TEXT | st.sampled_from(KEYS), JSON, max_size=4)), max_size=5))
def test_whatever_is_listed_what_is_offered_can_be_sent(listed: list[tuple[str, str, dict[str, Any]]]) -> None:
    found, left_out = offers("srv", [Listed(*one) for one in listed], None)
    assert len(found) + len(left_out) == len(listed)
    assert len({spec.name for spec in found}) == len(found)
    for spec in found:
        assert spec.name.startswith("srv__") and len(spec.name) <= MAX_NAME
        text = json.dumps([spec.name, spec.description, dict(spec.parameters)], ensure_ascii=False, allow_nan=False)
        assert sanitize(json.loads(text)[1]) == spec.description
        assert spec.parameters["type"] == "object" and isinstance(spec.parameters["properties"], dict)
        assert len(json.dumps(spec.parameters)) <= 12 * MAX_SCHEMA  # ASCII may take 12 characters for one
        text.encode()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries({}, optional={"content": JSON | st.lists(BLOCKS, max_size=4), "structuredContent": JSON}),
    st.integers(64, 500),
)
def test_whatever_comes_back_can_be_stored(result: dict[str, Any], limit: int) -> None:
    found = shown(result, limit, ["secret-value"])
    assert 0 < len(found.text) <= limit
    assert sanitize(found.text) == found.text
    assert not found.failed


def test_a_secret_does_not_come_back_and_a_short_one_cuts_no_holes() -> None:
    blocks: list[JsonValue] = [{"type": "text", "text": "key=canary-1234 and a"}] * (MAX_BLOCKS + 2)
    found = shown({"content": blocks, "isError": True}, 100_000, ["a", "canary-1234", "canary-1234-longer"])
    assert found.failed and "canary-1234" not in found.text and "key=*** and a" in found.text
    assert found.text.endswith("[… 2 parts left out]")


def test_all_that_a_server_offers_has_a_limit_of_its_own() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string", "description": "d" * 12_000}}}
    many = [Listed(f"t{i}", "", schema) for i in range(1 + MAX_TOTAL // 12_000)]
    with pytest.raises(McpFault, match=r"take 72,.* characters of every request") as caught:
        offers("srv", many, None)
    assert "mcp.srv.allow" in caught.value.hint
    assert len(offers("srv", many, ["t0", "t1"])[0]) == 2


def test_definitions_that_schemas_share_stay() -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"title": {"type": "string", "title": "Title"}},
        "properties": {"title": {"$ref": "#/$defs/title"}},
        "required": ["title"],
    }
    ((spec,), _) = offers("srv", [Listed("a", "", schema)], None)
    assert spec.parameters == {
        "$defs": {"title": {"type": "string", "title": "Title"}},
        "properties": {"title": {"$ref": "#/$defs/title"}},
        "required": ["title"],
        "type": "object",
    }
