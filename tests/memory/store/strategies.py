"""Hypothesis strategies for the records that a store keeps: any str, lone surrogates and NUL included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from memory.records import SUMMARY_LEVELS, Chunk, ChunkRef, Observation, Source, Step, ToolCall, Usage, View
from memory.stored import Event, Intent, KeyRows, PlanRecord, Question, UsageRow

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
ints = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**40)
floats = st.floats(allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=json_objects)
sources = st.builds(Source, url=texts, title=texts)
refs = st.builds(ChunkRef, chunk=ints, part=ints, query=texts, last=ints)
observations = st.builds(
    Observation,
    call_id=texts,
    tool=texts,
    text=texts,
    error=st.sampled_from([None, "timeout", "http_status"]),
    sources=st.lists(sources, max_size=2).map(tuple),
    refs=st.lists(refs, max_size=2).map(tuple),
)


def steps(number: int) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        number=st.just(number),
        kind=st.sampled_from(["act", "answer", "turn", "note"]),
        thought=texts,
        calls=st.lists(calls, max_size=2).map(tuple),
        observations=st.lists(observations, max_size=2).map(tuple),
        answer=texts,
        question=texts,
        task=ints,
        created=floats,
        interrupted=st.booleans(),
    )


def chunks(number: int) -> st.SearchStrategy[Chunk]:
    return st.builds(
        Chunk,
        step=steps(number),
        placeholder=texts,
        tokens_full=counts,
        tokens_placeholder=counts,
        content_hash=texts,
        parents=st.lists(ints, max_size=3).map(tuple),
    )


def views(chunk: int) -> st.SearchStrategy[View]:
    return st.builds(
        View,
        chunk=st.just(chunk),
        level=st.sampled_from(SUMMARY_LEVELS),
        text=texts,
        tokens=counts,
        version=ints,
        producer=texts,
        prompt_hash=texts,
        published_step=counts,
        fidelity=st.none() | floats.filter(lambda value: value == value),
    )


fours = st.tuples(counts, counts, counts, counts)
plans = st.builds(
    PlanRecord,
    step=counts,
    policy=texts,
    budget=ints,
    tokens=ints,
    unfitted_tokens=ints,
    fixed_tokens=ints,
    recent_tokens=ints,
    recent_from=ints,
    recent_cap=st.none() | ints,
    previous_tokens=ints,
    pressure=floats,
    thresholds=st.none() | st.tuples(floats, floats, floats),
    changed=st.lists(st.tuples(ints, ints), max_size=20).map(tuple),
    planned_counts=fours,
    shown_counts=fours,
    shown_tokens=fours,
    cosine_mean=floats,
    cosine_spread=floats,
    query_key=st.binary(max_size=64),
    encoder_id=texts,
    render_hash=texts,
    question=ints,
    ledger_base=ints,
    blocks=st.lists(ints, max_size=4).map(tuple),
    prefix_tokens=st.none() | ints,
)
figures = st.none() | ints
usages = st.builds(
    Usage,
    input_total=figures,
    cache_read=figures,
    cache_write=figures,
    output=figures,
    reasoning=figures,
    cost=st.none() | floats,
)
usage_rows = st.builds(
    UsageRow, step=ints, purpose=st.sampled_from(["step", "summary", "judge", "extract"]), model=texts, usage=usages
)
events = st.builds(Event, kind=texts, created=floats, body=json_objects)
intents = st.builds(Intent, step=steps(1), created=floats)
questions = st.builds(Question, task=ints, text=texts, from_step=ints, created=floats)


@st.composite
def key_rows(draw: st.DrawFn, encoder_id: st.SearchStrategy[str] = texts) -> KeyRows:
    """Keys of chunk 1 and 2, any float32 bit pattern, NaN included."""
    dim = draw(st.integers(1, 5))
    numbers = draw(st.lists(st.integers(1, 2), unique=True, max_size=2).map(sorted))
    raw = draw(st.binary(min_size=4 * dim * len(numbers), max_size=4 * dim * len(numbers)))
    return KeyRows(
        encoder_id=draw(encoder_id),
        numbers=np.array(numbers, dtype=np.int64),
        matrix=np.frombuffer(raw, dtype="<f4").reshape(len(numbers), dim),
        published=np.array([draw(counts) for _ in numbers], dtype=np.int64),
    )
