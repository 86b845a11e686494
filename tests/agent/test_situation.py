"""What the loop knows of a question: the same from a running session and from its stored steps."""

from __future__ import annotations

from agent.situation import MAX_LISTED, Tracker
from memory.records import ChunkRef, JsonValue, Observation, Source, Step, ToolCall
from tests.agent.reader_world import context_of

EMPTY = context_of([], 9)


def step(number: int, tool: str, arguments: dict[str, JsonValue], *urls: str, **more: object) -> Step:
    call = ToolCall(f"s{number}.0", tool, arguments)
    refs = (ChunkRef(int(str(more["ref"]))),) if "ref" in more else ()
    seen = Observation(call.id, tool, "text", sources=tuple(Source(url) for url in urls), refs=refs)
    return Step(number, calls=(call,), observations=(seen,))


STEPS = [
    step(1, "search", {"queries": ["salt road", "ingrid"]}, "http://a/", "http://b/"),
    step(2, "visit", {"urls": ["http://a/"]}, "http://a/"),
    step(3, "search", {"query": "lisbon"}, "http://c/", "http://a/"),
    step(4, "visit", {"url": "http://short/"}, "http://b/"),
    step(4, "parse_file", {"file": "a.pdf"}, "file:///a.pdf"),
    step(4, "parse_file", {"file": "a.pdf", "page": 2}, "file:///a.pdf"),
    step(5, "glimpse", {"chunk_id": "c2"}, ref=2),
]


def test_listed_visited_queries_and_glimpses() -> None:
    known = Tracker(STEPS).situation(EMPTY, 3)
    assert known.queries == ("salt road", "ingrid", "lisbon")
    assert known.listed == ("http://c/",)
    assert set(known.visited) == {"http://a/", "http://short/", "http://b/"}
    assert known.glimpsed == ("c2",)
    assert known.files == (("a.pdf", 1), ("a.pdf", 2))
    assert known.last_tools == ("glimpse",)
    assert (known.step, known.task_step, known.steps_left) == (9, 8, 3)


def test_step_by_step_is_the_same_as_at_once() -> None:
    running = Tracker()
    for one in STEPS:
        running.add(one)
    assert running.situation(EMPTY, None) == Tracker(STEPS).situation(EMPTY, None)


def test_a_note_leaves_the_last_tools_and_bad_arguments_are_no_urls() -> None:
    tracker = Tracker([STEPS[1], Step(2, "note", "what?"), step(3, "visit", {"urls": [1, None]})])
    assert tracker.situation(EMPTY, None).visited == ("http://a/",)
    assert Tracker([STEPS[1], Step(2, "note")]).situation(EMPTY, None).last_tools == ("visit",)


def test_the_newest_of_many_listed_urls_are_kept() -> None:
    many = [f"http://x/{i}" for i in range(MAX_LISTED + 5)]
    listed = Tracker([step(1, "search", {}, *many)]).situation(EMPTY, None).listed
    assert listed == tuple(many[5:])
