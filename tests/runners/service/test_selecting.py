"""Selection in process and over HTTP: budgets, must-keep, the same result both ways, and what is remembered."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory.encoders.hashing import HashingEncoder
from memory.errors import EncoderFault, MustKeepTooLarge
from memory.tokens import ScriptCounter
from runners.service.bodies import SelectIn, SelectOut
from runners.service.explain import explain
from runners.service.selecting import STRATEGIES, Ask, Candidate, Selector
from runners.service.vectors import WarmKeys, WarmPools, digest_of
from tests.runners.service.serving import running

WORDS = [
    "harbour",
    "invoice",
    "tide",
    "weather",
    "lunch",
    "crown",
    "letter",
    "ship",
    "paper",
    "garden",
    "river",
    "stone",
]


def pool(rng: random.Random, count: int) -> tuple[Candidate, ...]:
    """Texts of few words, so that many are alike and some the same."""
    return tuple(
        Candidate(
            f"m{n}", " ".join(rng.choices(WORDS, k=rng.randint(0, 12))), rng.choice([None, None, rng.randint(0, 30)])
        )
        for n in range(count)
    )


def ask_of(rng: random.Random) -> Ask:
    candidates = pool(rng, rng.randint(0, 40))
    must = tuple(one.id for one in rng.sample(candidates, min(len(candidates), rng.choice([0, 0, 1, 2]))))
    return Ask(
        " ".join(rng.choices(WORDS, k=3)),
        candidates,
        rng.randint(60, 200),
        rng.choice(STRATEGIES),
        must,
        k=rng.randint(0, 12),
        mult=rng.random(),
        drop_duplicates=rng.random() < 0.7,
    )


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.nightly)])
def test_in_process_and_over_http_the_same(tmp_path: Path, count: int) -> None:
    """Whatever was asked before: one selector is new for each pool, the service's remembers."""
    rng = random.Random(7)
    asks = [ask_of(rng) for _ in range(count * 4 // 5)]
    for one in asks[: count - len(asks)]:  # pools that grew, and pools seen before
        grown = (*one.candidates, *(dataclasses.replace(c, id=f"n{c.id}") for c in pool(rng, 5)))
        asks.append(dataclasses.replace(one, candidates=grown, query=rng.choice(WORDS)))
    with running(tmp_path, sample=1.0) as service, httpx.Client(base_url=service.url) as http:
        for one in asks:
            here = Selector(HashingEncoder(256)).select(one)
            body = SelectIn.model_validate({**dataclasses.asdict(one), "candidates": [
                dataclasses.asdict(c) for c in one.candidates], "must_keep": list(one.must_keep)})  # fmt: skip
            there = SelectOut.model_validate_json(
                http.post("/select", content=body.model_dump_json(), headers=JSON).content
            )
            assert (tuple(there.selected), there.tokens) == (here.ids, here.tokens)
            assert (there.objective, there.upper_bound, there.recency) == (
                here.objective,
                here.upper_bound,
                here.recency,
            )
    log = (tmp_path / "service" / "selections.jsonl").read_text("utf-8").splitlines()
    assert 0 < len(log) <= count  # what comes while several wait to be written is left out


JSON = {"content-type": "application/json"}


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_what_holds_for_every_selection(rng: random.Random) -> None:
    one = ask_of(rng)
    selector = Selector(HashingEncoder(64))
    try:
        selected, working = selector.work(one)
    except MustKeepTooLarge as fault:
        assert fault.needed > one.budget
        return
    order = [candidate.id for candidate in one.candidates]
    assert list(selected.ids) == [name for name in order if name in set(selected.ids)]
    assert set(one.must_keep) <= set(selected.ids) and selected.tokens <= one.budget
    count = ScriptCounter().count
    costs = {c.id: count(c.text) if c.tokens is None else c.tokens for c in one.candidates}
    assert selected.tokens == sum(costs[name] for name in selected.ids)
    if one.drop_duplicates:
        texts = [c.text for c in one.candidates if c.id in selected.ids and c.id not in one.must_keep]
        assert len(texts) == len(set(texts))
    if selected.objective is not None and selected.upper_bound is not None:
        assert selected.objective <= selected.upper_bound * (1 + 1e-6) + 1e-9
    decisions = explain(working)
    assert [d.id for d in decisions] == order and all(d.reason for d in decisions)
    assert {d.id for d in decisions if d.kept} == set(selected.ids)
    assert sorted(d.order for d in decisions if d.order is not None) == list(range(len(selected.ids)))


def test_reasons_say_what_happened() -> None:
    texts = ["harbour cost crowns", "harbour cost crowns", "weather", "harbour cost crowns again " * 30, "tide letter"]
    ask = Ask("harbour cost", tuple(Candidate(f"m{n}", t) for n, t in enumerate(texts)), 20, must_keep=("m4",))
    selected, working = Selector(HashingEncoder(256)).work(ask)
    reasons = {d.id: d.reason for d in explain(working)}
    assert selected.ids == ("m1", "m4")
    assert reasons["m4"] == "must-keep" and reasons["m0"] == "covered by m1"
    assert reasons["m2"] == "not relevant to the query" and reasons["m3"] == "longer than the whole budget"
    gains = {d.id: d.gain for d in explain(working)}
    assert gains["m1"] is not None and gains["m1"] > 0 and gains["m0"] == pytest.approx(0, abs=1e-3)


class Failing(HashingEncoder):
    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EncoderFault("the model server is gone")


def test_recency_decides_when_the_encoder_fails_or_nothing_is_relevant() -> None:
    candidates = tuple(Candidate(f"m{n}", f"weather {n}", 10) for n in range(5))
    failed = Selector(Failing(64)).select(Ask("x", candidates, 25, must_keep=("m0",)))
    assert failed.ids == ("m0", "m4") and failed.recency == "encoder"
    blank = Selector(HashingEncoder(64)).select(Ask("...", candidates, 25))
    assert blank.ids == ("m3", "m4") and blank.recency == "irrelevant"
    assert Selector(Failing(64)).select(Ask("x", candidates, 25, "last-k")).recency == ""


def test_a_budget_that_holds_nearly_all_is_remarked_on() -> None:
    candidates = tuple(Candidate(f"m{n}", f"weather {n}", 10) for n in range(5))
    assert "next to nothing to select" in Selector(HashingEncoder(64)).select(Ask("weather", candidates, 48)).notes[0]
    assert not Selector(HashingEncoder(64)).select(Ask("weather", candidates, 20)).notes


class Counting(HashingEncoder):
    made = 0

    def encode_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.made += len(texts)
        return super().encode_documents(texts)


def test_keys_are_made_once_and_bounded() -> None:
    encoder = Counting(64)
    selector = Selector(encoder)
    candidates = tuple(Candidate(f"m{n}", f"weather {n % 10}") for n in range(20))
    assert selector.prewarm([f"weather {n}" for n in range(10)]) == 10
    assert selector.select(Ask("weather", candidates, 50)).warm == 20 and encoder.made == 11, "the query is one"
    selector.reset()
    assert selector.select(Ask("weather", candidates, 50)).warm == 0 and encoder.made == 22
    small = WarmKeys(encoder, ScriptCounter(), 4 * (4 * 64 + 200))
    texts = [f"text {n}" for n in range(9)]
    digests = [digest_of(text) for text in texts]
    small.keys(texts, digests)
    assert small.figures().entries == 4 and small.figures().bytes <= 4 * 456
    assert small.keys(texts[-4:], digests[-4:])[1] == 4, "the newest stay"
    small.keys(texts[-4:-3], digests[-4:-3])
    small.keys(["other"], [digest_of("other")])
    assert small.keys(texts[-4:-3], digests[-4:-3])[1] == 1, "what was used last stays"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=25), st.lists(st.integers(0, 30), min_size=1, max_size=25))
@settings(max_examples=50, deadline=None)
def test_what_is_remembered_of_pools_cannot_be_told_from_what_is_computed(first: list[int], second: list[int]) -> None:
    encoder = HashingEncoder(64)
    warm = WarmPools(1_000_000)
    for rows in (first, second, first, first + second):
        texts = [f"{WORDS[n % len(WORDS)]} {n}" if n else "" for n in rows]
        digests = [digest_of(text) for text in texts]
        whole = WarmKeys(encoder, ScriptCounter(), 1_000_000).keys(texts, digests)[0]
        assert np.array_equal(warm.cosines(digests, whole), WarmPools(0).cosines(digests, whole))


def test_many_candidates_compete_as_a_shortlist() -> None:
    candidates = tuple(Candidate(f"m{n}", f"{WORDS[n % 12]} number {n}", 5) for n in range(2_300))
    selected, working = Selector(HashingEncoder(64)).work(Ask("harbour", candidates, 100, must_keep=("m1",)))
    assert len(working.rows) <= 2_001 and "m1" in selected.ids and selected.tokens <= 100


def test_debug_used_prewarm_reset_and_metrics(tmp_path: Path) -> None:
    body = {
        "query": "harbour cost",
        "candidates": [
            {"id": "a", "text": "The harbour of Varden did cost 2000 crowns"},
            {"id": "b", "text": "invoice 4711-B of Solvang was for the weather"},
        ],
        "budget": 14,
    }
    with running(tmp_path, debug=True) as one, httpx.Client(base_url=one.url) as http:
        said = http.post("/select_debug", json=body).json()
        assert said["selected"] == ["a"] and said["dropped"] == ["b"]
        assert said["decisions"][0]["order"] == 0 and said["decisions"][1]["reason"]
        used = http.post("/select/used", json={"selection": said["selection"], "text": "Varden: 2000, 4711-B, 9999"})
        assert used.json() == {"used": 3, "kept": 2}
        assert http.post("/select/used", json={"selection": "s0", "text": ""}).status_code == 404
        assert http.post("/prewarm", json={"texts": ["one", "two", "one"]}).json() == {"made": 3}
        assert http.post("/reset", json={}).json() == {"done": True}
        text = http.get("/metrics").text
        assert "longstride_recall_estimate 0.666667" in text and "longstride_cache_entries 0" in text
        assert 'longstride_selections_total{strategy="pacms",outcome="selected"} 1' in text
        assert 'longstride_requests_total{route="/select_debug",status="200"} 1' in text
        for line in text.splitlines():
            assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2


def test_too_many_at_once_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, max_waiting=1) as one:
        one.service._waiting = 1_000
        answer = httpx.post(f"{one.url}/select", json={"query": "q", "candidates": [], "budget": 1})
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        one.service._waiting = 0
        assert "longstride_busy_total 1" in httpx.get(f"{one.url}/metrics").text


def test_a_failing_encoder_counts_as_fallback(tmp_path: Path) -> None:
    with running(tmp_path, Failing(64)) as one:
        body = {"query": "q", "candidates": [{"id": "a", "text": "x"}], "budget": 10}
        assert httpx.post(f"{one.url}/select", json=body).json()["recency"] == "encoder"
        text = httpx.get(f"{one.url}/metrics").text
        assert "longstride_fallback_rate 1\n" in text and 'longstride_fallbacks_total{by="encoder"} 1' in text
        assert httpx.post(f"{one.url}/prewarm", json={"texts": ["y"]}).status_code == 503
