"""kill -9 at any instant: nothing committed is lost, changed or repeated, and the session comes to the same end."""

from __future__ import annotations

import gzip
import itertools
import random
from contextlib import closing
from pathlib import Path

import pytest

from memory.records import JsonValue
from memory.store import reads
from memory.store.address import Address
from memory.store.migrations import MIGRATIONS
from tests.faults.player import begin
from tests.faults.script import FOLDING, SCRIPT, TYPES, transcript
from tests.faults.survivor import Survivor, kill_at_random
from tests.faults.zygote import Zygote
from tests.fixtures import make_store
from tests.memory.store.places import reading

POLICIES = (FOLDING, "pace")
BESIDE = ("add_keys:", "add_views:", "summary:")
"""Points of what is made beside the steps."""
SPAN = 1.2
"""Kills fall anywhere in this share of the time that a whole session takes."""


class Uninterrupted:
    """A session that nobody killed, by policy: its transcript, the points it passed, and how long it took."""

    def __init__(self, zygote: Zygote, folder: Path, policy: str, database: Address | None = None) -> None:
        begin(folder, database)
        survivor = Survivor(folder, policy)
        ended = survivor.session(zygote, points=True)
        assert not ended.killed
        self.transcript: list[JsonValue] = transcript(survivor.steps())
        self.points: list[tuple[str, int]] = [(point, place) for point, place in ended.result["points"]]
        self.seconds = ended.seconds
        survivor.finished(self.transcript)


@pytest.fixture(scope="module")
def whole(zygote: Zygote, disk: Path) -> dict[str, Uninterrupted]:
    return {policy: Uninterrupted(zygote, disk / f"whole-{policy}", policy) for policy in POLICIES}


def test_the_uninterrupted_session_is_what_the_script_says(whole: dict[str, Uninterrupted]) -> None:
    assert len(whole[FOLDING].transcript) == len(SCRIPT)
    assert len(whole["pace"].transcript) == len(SCRIPT) - 1
    assert {SCRIPT[place][0] for _, place in whole[FOLDING].points if place < len(SCRIPT)} == set(TYPES)


def killed(
    zygote: Zygote,
    disk: Path,
    whole: dict[str, Uninterrupted],
    *,
    kills: int,
    seed: int,
    database: Address | None = None,
) -> int:
    """Sessions killed at random until there were so many kills; returns how many steps were interrupted by them."""
    rng = random.Random(seed)
    done = interrupted = number = 0
    while done < kills:
        number += 1
        policy = POLICIES[number % len(POLICIES)]
        folder = disk / f"random-{seed}-{number}"
        survivor = kill_at_random(zygote, folder, rng, SPAN * whole[policy].seconds, policy, database)
        survivor.finished(whole[policy].transcript)
        done += survivor.kills
        interrupted += sum(step.interrupted for step in survivor.steps())
    return interrupted


def test_fifty_random_kills(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted]) -> None:
    killed(zygote, disk, whole, kills=50, seed=1)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_thousand_random_kills(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted]) -> None:
    """Some 3 minutes, 5 on a busy machine with two cores."""
    assert killed(zygote, disk, whole, kills=1_000, seed=2) > 10


def crash(
    zygote: Zygote, disk: Path, whole: Uninterrupted, point: str, nth: int, database: Address | None = None
) -> None:
    """Die the n-th time at a point, look, go on, and come to the same end. What is made beside the steps is stored in
    batches of any size, so such a point may be passed fewer times: then earlier."""
    for earlier in range(nth if point.startswith(BESIDE) else 1):
        folder = disk / f"{point.replace(':', '-')}-{nth}-{earlier}"
        begin(folder, database)
        survivor = Survivor(folder)
        if survivor.session(zygote, deadly=[point, nth - earlier]).killed:
            break
        survivor.finished(whole.transcript)
    else:
        raise AssertionError(f"{point} was passed fewer than {nth} times")
    assert not survivor.session(zygote).killed
    survivor.finished(whole.transcript)


def occasions(points: list[tuple[str, int]]) -> dict[tuple[str, str], int]:
    """(point, type of the step under way) -> the how-manieth time the point is passed there first."""
    counts: dict[str, int] = {}
    first: dict[tuple[str, str], int] = {}
    for point, place in points:
        counts[point] = counts.get(point, 0) + 1
        kind = SCRIPT[place][0] if place < len(SCRIPT) else "end"
        first.setdefault((point, kind), counts[point])
    return first


def test_every_named_point(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted]) -> None:
    """Each at one type of step; the nightly test takes each at every type."""
    rng = random.Random(3)
    places: dict[str, list[int]] = {}
    for (point, _), nth in occasions(whole[FOLDING].points).items():
        if not point.startswith("event:"):  # these lie between two others
            places.setdefault(point, []).append(nth)
    assert {f"{name}:{when}" for name in WRITES for when in ("begun", "written", "committed")} <= set(places)
    for point, times in sorted(places.items()):
        crash(zygote, disk, whole[FOLDING], point, rng.choice(times))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_named_point_at_every_type_of_step(
    zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted], tmp_path: Path
) -> None:
    """Some 60 seconds."""
    (disk / "every").mkdir()
    for (point, _), nth in occasions(whole[FOLDING].points).items():
        crash(zygote, disk / "every", whole[FOLDING], point, nth)


def test_killed_before_any_statement_of_a_migration(zygote: Zygote, disk: Path) -> None:
    """The store is at a whole schema, and the next opening finishes."""
    whole = gzip.decompress((make_store.HERE / "store-v1.sqlite.gz").read_bytes())
    for statement in itertools.count(1):
        path = disk / f"migrate{statement}.sqlite"
        path.write_bytes(whole)
        ended = zygote.run("migrate", path=str(path), statement=statement)
        if not ended.killed:
            assert ended.result == [MIGRATIONS[-1].number, make_store.STEPS], ended.error
            assert statement > 10
            return
        with closing(reading(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert reads.last_step(connection) == make_store.STEPS
        again = zygote.run("migrate", path=str(path), statement=0)
        assert again.result == [MIGRATIONS[-1].number, make_store.STEPS], again.error


WRITES = (
    "claim",
    "set_meta",
    "add_question",
    "add_plan",
    "begin_step",
    "commit_step",
    "add_block",
    "publish_views",
    "add_views",
    "add_keys",
    "add_event",
    "aclose",
    "release",
)
"""Every method of the store that a session writes through."""
