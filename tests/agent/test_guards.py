from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import Stop
from agent.guards import CHANGE_AT, LOOKBACK, NOTE_AT, STOP_AT, Guards, fingerprint
from memory.records import Observation, Step, ToolCall


def call(name="search", **arguments):
    return ToolCall("s.0", name, arguments or {"queries": ["x"]})


def act(guards, *calls, text="same", number=1, task=1):
    """One step through the guards, as the loop takes it."""
    notes = guards.before(calls)
    observations = tuple(Observation("s.0", c.name, text) for c in calls)
    observations += tuple(Observation("", "note", note) for note in notes)
    guards.after(Step(number, calls=calls, observations=observations, task=task))
    return notes


def run(calls):
    """Outcome of each step: "", "note", "change", and "stop" at last."""
    guards, seen = Guards(), []
    for one in calls:
        try:
            notes = act(guards, one)
        except Stop as stop:
            assert stop.status == "stuck"
            return [*seen, "stop"]
        assert len(notes) <= 1
        seen.append("" if not notes else "note" if notes[0].startswith("Note") else "change")
    return seen


def test_the_same_again():
    assert run([call()] * 20) == ["", "", "note", "note", "note", "change", "change", "change", "change", "stop"]
    assert (NOTE_AT, CHANGE_AT, STOP_AT) == (3, 6, 10)


def test_two_in_turn_count():
    seen = run([call(queries=["a"]), call(queries=["b"])] * 20)
    assert seen[:5] == ["", "", "", "", "note"]
    assert seen.index("change") == 10
    assert len(seen) == 19
    assert seen[-1] == "stop"


def test_two_in_any_order_count():
    a, b = call(queries=["a"]), call(queries=["b"])
    assert run([a, a, b, a, b, b, a, a, b, a, b, a, a, b, a, b, a, a, b, a])[-1] == "stop"


@pytest.mark.parametrize("length", [3, 4])
def test_longer_cycles_count(length):
    seen = run([call(queries=[str(i)]) for i in range(length)] * 20)
    assert seen[-1] == "stop"
    assert len(seen) == 9 * length + 1 <= LOOKBACK


@pytest.mark.parametrize(
    "make",
    [
        lambda i: call("visit", urls=["http://a"], page=i + 1),
        lambda i: call("glimpse", chunk_id="c7", part=i + 1),
        lambda i: call("glimpse", chunk_id="c7", query=f"word {i}"),
        lambda i: call("visit", urls=["http://a"], find=f"word {i}"),
        lambda i: call("search", queries=[f"q{i}"]),
        lambda i: call("python", code=f"print({i})"),
    ],
    ids=["pages", "parts", "glimpse queries", "find", "search queries", "code"],
)
def test_going_on_is_no_loop(make):
    assert set(run([make(i) for i in range(60)])) == {""}


def test_coming_back_between_new_things_is_no_loop():
    steps = [(call("glimpse", chunk_id="c7"), call("visit", urls=[f"http://{i}"])) for i in range(40)]
    assert set(run(itertools.chain.from_iterable(steps))) == {""}


def test_something_new_starts_the_count_anew():
    a = [call()] * 5
    assert run([*a, call(queries=["b"]), call(queries=["c"]), *a])[-5:] == ["", "", "note", "note", "note"]


def test_disguises():
    plain = fingerprint([call("visit", urls=["u"], goal="g")])
    assert fingerprint([call("visit", goal="g ", urls=["u"])]) == plain
    assert fingerprint([call("visit", urls=["u"], goal="g", page=1)]) == plain
    assert fingerprint([call("visit", urls=["u"], goal="g", page=None, find=None)]) == plain
    assert fingerprint([call("visit", urls=["u"], goal="g", page=2)]) != plain
    assert fingerprint([call("visit", urls=["U"], goal="g")]) != plain
    assert fingerprint([call("visits", urls=["u"], goal="g")]) != plain
    assert fingerprint([call("visit", urls=["u"], goal="g")] * 2) != plain
    assert fingerprint([call("python", code="1"), call()]) != fingerprint([call(), call("python", code="1")])


def test_says_that_the_result_was_the_same_only_when_it_was():
    for texts, same in ((["x", "x", "x"], True), (["x", "y", "z"], False)):
        guards = Guards()
        notes = [act(guards, call(), text=text) for text in texts]
        assert ("same result" in notes[-1][0]) is same


def test_asking_is_pure():
    guards = Guards()
    for _ in range(2):
        act(guards, call())
    assert guards.before([call()]) == guards.before([call()]) != []


def test_an_answer_or_a_new_question_starts_anew():
    guards = Guards()
    for _ in range(5):
        act(guards, call())
    guards.after(Step(6, "answer", answer="x"))
    assert guards.before([call()]) == []
    for _ in range(5):
        act(guards, call())
    act(guards, call(queries=["other"]), task=2)
    assert act(guards, call(), task=2) == []


def test_steps_without_calls_do_not_matter():
    guards = Guards()
    for _ in range(2):
        act(guards, call())
        guards.after(Step(1, "note", thought="could not be read"))
    assert guards.before([]) == []
    assert guards.before([call()])[0].startswith("Note")


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(0, 3), max_size=70))
def test_rebuilt_from_the_last_steps_it_is_the_same(numbers):
    steps = [
        Step(i, calls=(call(queries=[str(n)]),), observations=(Observation("s.0", "search", str(n)),))
        for i, n in enumerate(numbers)
    ]
    whole, tail = Guards.rebuild(steps), Guards.rebuild(steps[-LOOKBACK:])

    def outcome(guards, n):
        try:
            return guards.before([call(queries=[str(n)])])
        except Stop as stop:
            return str(stop)

    assert [outcome(whole, n) for n in range(4)] == [outcome(tail, n) for n in range(4)]


def test_what_was_interrupted_is_no_repetition() -> None:
    """The step is taken again because the session was, not because the model is caught."""
    step = Step(1, calls=(ToolCall("a", "python", {"code": "1"}),), interrupted=True)
    guards = Guards.rebuild([step] * 12)
    assert guards.before(step.calls) == []
