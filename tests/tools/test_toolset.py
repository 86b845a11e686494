from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from pydantic import Field

from memory.records import Observation, Source, ToolCall
from tools.base import Arguments, CallContext, ToolError
from tools.toolset import Toolset


class LookupArguments(Arguments):
    """Not for the model."""

    queries: list[str] = Field(min_length=1, description="what to look up")
    title: str = ""
    page: int | None = None


class Lookup:
    name: ClassVar[str] = "lookup"
    description = "Look something up."
    arguments: type[Arguments] = LookupArguments
    timeout_s = 5.0

    def __init__(self) -> None:
        self.seen: list[LookupArguments] = []
        self.closed = False

    async def run(self, arguments: LookupArguments, context: CallContext) -> Observation:
        self.seen.append(arguments)
        if arguments.title == "mend":
            raise ToolError("not_found", "nothing \u202ehere")
        if arguments.title == "fault":
            raise RuntimeError("a fault of the program")
        if arguments.title == "own timeout":
            raise TimeoutError("not ours")
        text = f"{context.question}: {' '.join(arguments.queries)}\x00<|endoftext|>"
        return Observation("whatever", self.name, text, sources=(Source("http://x/\x00", "t" * 9999),))

    async def aclose(self) -> None:
        self.closed = True


class SlowArguments(Arguments):
    pass


class Slow:
    name: ClassVar[str] = "slow"
    description = "Never ends."
    arguments: type[Arguments] = SlowArguments

    def __init__(self, timeout_s: float = 60.0) -> None:
        self.timeout_s = timeout_s
        self.started = asyncio.Event()
        self.cancelled = False

    async def run(self, arguments: SlowArguments, context: CallContext) -> Observation:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError

    def partial_text(self, call_id: str) -> str:
        return f"half of {call_id}"

    async def aclose(self) -> None:
        raise OSError("cannot close")


def call(index: int = 0, name: str = "lookup", **arguments: object) -> ToolCall:
    return ToolCall(f"s1.{index}", name, arguments)  # type: ignore[arg-type]


def test_specs_are_plain_json_schema() -> None:
    [lookup, slow] = Toolset([Lookup(), Slow()]).specs
    assert (lookup.name, lookup.description) == ("lookup", "Look something up.")
    assert lookup.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["queries"],
        "properties": {
            "queries": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "what to look up"},
            "title": {"type": "string", "default": ""},
            "page": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
    }
    assert slow.parameters == {"type": "object", "additionalProperties": False, "properties": {}}


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        Toolset([Lookup(), Lookup()])


async def test_runs_the_first_four_in_order_and_names_the_rest() -> None:
    tool = Lookup()
    calls = [call(i, queries=[str(i)]) for i in range(6)]
    observations = await Toolset([tool]).run(calls, step=1, question="q")
    assert [o.call_id for o in observations] == [c.id for c in calls]
    assert [a.queries for a in tool.seen] == [["0"], ["1"], ["2"], ["3"]]
    assert [o.error for o in observations] == [None] * 4 + ["not_run"] * 2
    assert "first 4" in observations[5].text


async def test_everything_of_an_observation_is_storable_and_its_id_is_ours() -> None:
    [observation] = await Toolset([Lookup()]).run([call(queries=["a"])], step=1, question="q")
    assert observation.text == "q: a␀< |endoftext|>"
    assert observation.call_id == "s1.0"
    assert observation.sources[0].url == "http://x/␀"
    assert len(observation.sources[0].title) <= 500
    [capped] = await Toolset([Lookup()], max_text=100).run([call(queries=["a" * 1000])], step=1)
    assert len(capped.text) <= 100 and "left out" in capped.text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("a b", ["a b"]), (7, ["7"]), (["a", "b"], ["a", "b"]), ('["a", "b"]', ["a", "b"]), ("[a", ["[a"])],
)
async def test_a_scalar_is_taken_for_a_list_of_strings(given: object, wanted: list[str]) -> None:
    tool = Lookup()
    [observation] = await Toolset([tool]).run([call(queries=given)], step=1)
    assert observation.error is None
    assert tool.seen[0].queries == wanted


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        ({}, "queries: Field required"),
        ({"queries": []}, "queries: List should have at least 1 item"),
        ({"queries": ["a"], "nope": "x" * 9999}, "nope: Extra inputs are not permitted"),
        ({"queries": [{"a": 1}]}, "queries.0: Input should be a valid string"),
        ({"queries": True}, "queries: Input should be a valid list"),
        ({"n" * 9999: 1}, "queries: Field required"),
    ],
)
async def test_invalid_arguments_quote_the_schema_error(arguments: dict[str, object], quoted: str) -> None:
    tool = Lookup()
    [observation] = await Toolset([tool]).run([ToolCall("s1.0", "lookup", arguments)], step=1)  # type: ignore[arg-type]
    assert observation.error == "invalid_arguments"
    assert quoted in observation.text
    assert len(observation.text) <= 500
    assert not tool.seen


@pytest.mark.parametrize("name", ["Lookup", "LOOKUP", "lookups", "look_up"])
async def test_a_near_name_gets_a_hint_and_is_not_run(name: str) -> None:
    tool = Lookup()
    [observation] = await Toolset([tool, Slow()]).run([call(name=name, queries=["a"])], step=1)
    assert observation.error == "unknown_tool"
    assert "Did you mean 'lookup'?" in observation.text
    assert "lookup, slow" in observation.text
    assert not tool.seen


async def test_a_far_name_gets_no_hint() -> None:
    [observation] = await Toolset([Lookup()]).run([call(name="x\x00" * 500)], step=1)
    assert "Did you mean" not in observation.text
    assert len(observation.text) < 500
    assert "\x00" not in observation.tool


async def test_a_tool_error_keeps_its_kind() -> None:
    [observation] = await Toolset([Lookup()]).run([call(queries=["a"], title="mend")], step=1)
    assert (observation.error, observation.text) == ("not_found", r"nothing \u{202E}here")


@pytest.mark.parametrize(("title", "kind"), [("fault", RuntimeError), ("own timeout", TimeoutError)])
async def test_a_fault_of_the_program_propagates(title: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await Toolset([Lookup()]).run([call(queries=["a"], title=title)], step=1)


async def test_a_timeout_keeps_what_was_there_and_the_next_call_runs() -> None:
    slow = Slow(timeout_s=0.01)
    first, second = await Toolset([slow, Lookup()]).run([call(0, "slow"), call(1, queries=["a"])], step=1)
    assert first.error == "timeout"
    assert "0.01 s" in first.text and "half of s1.0" in first.text
    assert slow.cancelled
    assert second.error is None


async def test_cancel_reaches_the_running_tool_and_leaves_no_task() -> None:
    slow, lookup = Slow(), Lookup()
    before = asyncio.all_tasks()
    running = asyncio.create_task(Toolset([slow, lookup]).run([call(0, "slow"), call(1, queries=["a"])], step=1))
    await slow.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert slow.cancelled
    assert not lookup.seen
    assert asyncio.all_tasks() == before


async def test_closing_reaches_every_tool() -> None:
    lookup = Lookup()
    with pytest.raises(OSError, match="cannot close"):
        await Toolset([Slow(), lookup]).aclose()
    assert lookup.closed


async def test_what_is_on_record_stays_on_offer() -> None:
    lookup = Lookup()
    begun = Toolset([lookup, Slow()])
    moved = Toolset([lookup, Renamed()], recorded=begun.specs)
    assert moved.specs == begun.specs
    here, gone, new = await moved.run([call(queries=["q"]), call(1, "slow"), call(2, "renamed")], step=1)
    assert here.error is None
    assert (gone.error, gone.text) == ("unsupported", "slow is not available on this machine now: do without it")
    assert new.error == "unknown_tool" and "renamed" not in new.text.partition("Valid names")[2]
    await moved.aclose()
    assert lookup.closed


class Renamed(Lookup):
    name: ClassVar[str] = "renamed"
