"""References of an outside tool's schema, written out where they could not resolve."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.dialects.base import Situation
from agent.dialects.guided import GuidedDialect
from agent.dialects.legal import legal_schema, violation
from agent.dialects.refs import inlined
from agent.errors import UnusableTool
from memory.records import ToolSpec

DEFS: dict[str, Any] = {
    "Day": {"type": "string", "enum": ["mon", "tue"]},
    "Span": {"type": "object", "properties": {"from": {"$ref": "#/$defs/Day"}}, "required": ["from"]},
}


def tool(properties: dict[str, Any], definitions: dict[str, Any] | None = None, key: str = "$defs") -> ToolSpec:
    return ToolSpec("srv__book", "Book.", {"type": "object", "properties": properties, key: definitions or {}})


def test_a_branch_of_the_guided_dialect_needs_no_definitions() -> None:
    asked = tool(
        {"span": {"$ref": "#/$defs/Span", "description": "when"}, "days": {"items": {"$ref": "#/$defs/Day"}}}, DEFS
    )
    schema = legal_schema([asked], Situation(step=2, task_step=2))
    assert "$ref" not in json.dumps(schema) and "$defs" not in json.dumps(schema)
    assert not violation({"action": "srv__book", "span": {"from": "mon"}, "days": ["tue"]}, schema)
    assert violation({"action": "srv__book", "span": {"from": "sat"}}, schema)
    assert violation({"action": "srv__book", "days": ["sat"]}, schema)
    assert inlined(asked)["properties"]["span"]["description"] == "when"  # type: ignore[index, call-overload]


def test_what_only_looks_like_a_reference_stays() -> None:
    properties = {"x": {"enum": [{"$ref": "#/nowhere"}], "default": {"$ref": "#/nowhere"}}, "$ref": {"type": "string"}}
    assert inlined(tool(properties))["properties"] == properties


@pytest.mark.parametrize(
    ("properties", "definitions", "why"),
    [
        ({"x": {"$ref": "#/$defs/T"}}, {"T": {"items": {"$ref": "#/$defs/T"}}}, "#/$defs/T refers to itself"),
        ({"x": {"$ref": "#"}}, {}, "refers to itself"),
        ({"x": {"$ref": "#/$defs/A"}}, {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}, "refers to itself"),
        ({"x": {"$ref": "#/$defs/None"}}, {}, "leads nowhere"),
        (
            {"x": {"$ref": "#/$defs/d0"}},
            {**{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)}, "d20": {}},
            "more than 5,000 values",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_written_out_is_refused_when_the_session_opens(
    properties: dict[str, Any], definitions: dict[str, Any], why: str
) -> None:
    with pytest.raises(UnusableTool, match=why.replace("$", r"\$")) as caught:
        GuidedDialect().step_format([tool(properties, definitions)])
    assert "srv__book" in str(caught.value) and "mcp.srv.allow" in caught.value.hint


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{"type": "string"}, {"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}, True]),
    lambda inner: st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("xy"), inner)}),
    max_leaves=6,
)


@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_any_schema_is_written_out_or_refused(x: Any, a: Any, b: Any) -> None:
    try:
        written = inlined(tool({"x": x}, {"a": a, "b": b}, "definitions"))
    except UnusableTool:
        return
    assert '"$ref"' not in json.dumps(written)
