from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.backbones.base import UnparsedCall
from agent.dialects.native import NativeDialect
from agent.dialects.parsing import MAX_JSON_CHARS, call_of, parse_json, parse_object
from agent.dialects.tongyi import TongyiDialect
from agent.errors import ParseFailure
from memory.records import JsonValue, Reply

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CALL_TEXT = '{"name": "search", "arguments": {"queries": ["a\\"b", \'c\'], "n": 3}}'
TAGS = ("think", "tool_call", "code", "answer", "tool_response")
MARKUP = st.sampled_from(
    [
        *(f"<{tag}>" for tag in TAGS),
        *(f"</{tag}>" for tag in TAGS),
        '{"name": "search", "arguments": {"queries": ["x"]}}',
        *('{"name"', "[" * 50, "9" * 5000, "NaN", "\ud800", "'", '"', "\\"),
    ]
)


@settings(max_examples=1000, deadline=None)
@given(JSON)
def test_valid_json_is_read_exactly(value: JsonValue) -> None:
    assert parse_json(json.dumps(value)) == value


@settings(max_examples=1000, deadline=None)
@given(st.lists(MARKUP | st.text(max_size=8), max_size=8).map("".join))
def test_any_text_is_a_decision_or_a_failure(text: str) -> None:
    for dialect in (NativeDialect(), TongyiDialect()):
        for reply in (Reply(text=text), Reply(text="", tool_calls=(UnparsedCall("a", "search", raw=text),))):
            try:
                decision = dialect.parse(reply, 3)
            except ParseFailure:
                continue
            assert bool(decision.calls) != bool(decision.answer)
            json.dumps([dict(call.arguments) for call in decision.calls], allow_nan=False).encode("utf-8")
            (decision.thought + decision.answer).encode("utf-8")


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["queries", "goal", "n"]), JSON, min_size=1), st.data())
def test_a_prefix_of_a_call_is_never_a_call(arguments: dict[str, JsonValue], data: st.DataObject) -> None:
    whole = json.dumps({"name": "search", "arguments": arguments})
    cut = data.draw(st.integers(1, len(whole) - 1))
    raw = json.dumps(arguments)
    with pytest.raises(ParseFailure) as caught:
        TongyiDialect().parse(Reply(text=f"<tool_call>{whole[:cut]}"), 1)
    assert caught.value.cut
    native = UnparsedCall("a", "search", raw=raw[: min(cut, len(raw) - 1)])
    with pytest.raises(ParseFailure):
        NativeDialect().parse(Reply(text="", tool_calls=(native,)), 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ('{"a": NaN, "b": Infinity, "c": 1e999}', {"a": None, "b": None, "c": None}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": ' + "7" * 5000 + "}", {"a": "7" * 5000}),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_common_slips(text: str, value: JsonValue) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 50 + "1" + "}" * 50, "x" * (MAX_JSON_CHARS + 1), "hello", "", "[1, 2]", "null", '"{}'],
    ids=["nested", "deep", "long", "word", "nothing", "list", "null", "open"],
)
def test_what_is_not_an_object_is_a_failure(text: str) -> None:
    if text == "":
        assert parse_object(text) == {}
        return
    with pytest.raises(ParseFailure) as caught:
        parse_object(text)
    assert len(str(caught.value)) < 600


def test_a_missing_bracket_is_a_slip_only_when_the_call_was_closed() -> None:
    broken = CALL_TEXT.replace("'c'", '"c"')[:-1]
    with pytest.raises(ParseFailure) as caught:
        parse_json(broken)
    assert caught.value.cut
    assert call_of(parse_json(broken, closed=True)) == ("search", {"queries": ['a"b', "c"], "n": 3})
    with pytest.raises(ParseFailure, match="stops"):
        parse_json('{"name": "search", "arguments": {"queries": ["a', closed=True)
