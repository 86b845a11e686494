"""The promises of a session, kept on a server: clients and the server itself are killed, connections are cut."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.errors import StoreBusy, StoreFault
from memory.store.address import Address
from memory.store.postgres import PostgresStore
from tests.conftest import memory_disk
from tests.faults.player import begin
from tests.faults.script import FOLDING
from tests.faults.survivor import Survivor
from tests.faults.test_crashes import POLICIES, WRITES, Uninterrupted, crash, killed, occasions
from tests.faults.test_nth_fault import FAILED, Cancelled, check, kind, uninterrupted
from tests.faults.test_two_owners import races, woken
from tests.faults.zygote import Zygote
from tests.memory.store.build import chunk
from tests.memory.store.places import backend
from tests.support.postgres import Server, running


@pytest.fixture(scope="module")
def database(postgres: Server) -> Address:
    return postgres.database()


@pytest.fixture(scope="module")
def whole(zygote: Zygote, disk: Path, database: Address) -> dict[str, Uninterrupted]:
    return {policy: Uninterrupted(zygote, disk / f"whole-{policy}", policy, database) for policy in POLICIES}


def test_twenty_random_kills(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted], database: Address) -> None:
    killed(zygote, disk, whole, kills=20, seed=11, database=database)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_three_hundred_random_kills(
    zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted], database: Address
) -> None:
    """Some 70 seconds."""
    assert killed(zygote, disk, whole, kills=300, seed=12, database=database) > 3


def test_named_points(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted], database: Address) -> None:
    """Each moment of committing a step, and of taking and giving up a session; the nightly test takes them all."""
    places = {point: nth for (point, _), nth in occasions(whole[FOLDING].points).items()}
    assert {f"{name}:{when}" for name in WRITES for when in ("begun", "written", "committed")} <= set(places)
    chosen = [f"{name}:{when}" for name in ("commit_step", "claim") for when in ("written", "committed")]
    for point in [*chosen, "add_keys:written"]:
        crash(zygote, disk, whole[FOLDING], point, places[point], database)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_named_point(zygote: Zygote, disk: Path, whole: dict[str, Uninterrupted], database: Address) -> None:
    """Some 20 seconds."""
    (disk / "every").mkdir()
    rng = random.Random(13)
    places: dict[str, list[int]] = {}
    for (point, _), nth in occasions(whole[FOLDING].points).items():
        places.setdefault(point, []).append(nth)
    for point, times in sorted(places.items()):
        crash(zygote, disk / "every", whole[FOLDING], point, rng.choice(times), database)


def test_twenty_races(zygote: Zygote, disk: Path, database: Address) -> None:
    races(zygote, disk, 20, 14, database)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_two_hundred_races(zygote: Zygote, disk: Path, database: Address) -> None:
    """Some 25 seconds."""
    races(zygote, disk, 200, 15, database)


def test_an_owner_that_wakes_up_stops(zygote: Zygote, disk: Path, database: Address) -> None:
    woken(zygote, disk / "woken", database)


class Cutting:
    """Cuts the connection that writes, the n-th time a point is passed."""

    def __init__(self, postgres: Server, point: str, nth: int = 1) -> None:
        self._postgres = postgres
        self._point = point
        self._left = nth
        self.store: PostgresStore | None = None
        self.cut = False

    def at(self, point: str) -> None:
        self._left -= point == self._point
        if point == self._point and self._left == 0 and self.store is not None:
            self.cut = True
            with self._postgres.connect() as connection:
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (backend(self.store),))


@pytest.mark.parametrize("where", ["begun", "written", "committed"])
async def test_a_connection_that_is_cut_is_made_again(postgres: Server, database: Address, where: str) -> None:
    """At any moment of a commit: the step is there once, and the owner goes on."""
    faults = Cutting(postgres, f"commit_step:{where}", 2)
    async with await PostgresStore.open(database.of(f"cut-{where}"), create=True, faults=faults) as store:
        faults.store = store
        await store.claim("run")
        for number in range(1, 5):
            await store.commit_step(chunk(number))
        assert faults.cut
        assert await store.chunks(range(1, 5)) == [chunk(number) for number in range(1, 5)]
        assert await store.owner() is not None
        async with await PostgresStore.open(database.of(f"cut-{where}"), create=False) as other:
            with pytest.raises(StoreBusy, match="run"):
                await other.claim("other")


async def test_readers_are_made_again(postgres: Server, database: Address) -> None:
    async with await PostgresStore.open(database.of("readers"), create=True) as store:
        await store.commit_step(chunk(1))
        assert await store.last_step() == 1
        with postgres.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = 'longstride' AND datname = %s",
                (database.url.rpartition("/")[2],),
            )
        assert await store.last_step() == 1
        await store.commit_step(chunk(2))
        assert await store.last_step() == 2


@pytest.fixture
def own_server(postgres: Server) -> Iterator[Server]:
    """One that may be killed."""
    with running(postgres.programs, memory_disk()) as server:
        yield server


@pytest.mark.parametrize("how", ["kill -9", "immediate"])
async def test_a_server_that_dies_and_comes_back(own_server: Server, how: str) -> None:
    """In the middle of a session: every step that was acknowledged is there, none is lost, none twice, and the owner
    goes on without being told."""
    address = own_server.database().of("s")
    async with await PostgresStore.open(address, create=True) as store:
        await store.claim("run")
        stop = asyncio.Event()
        working = asyncio.create_task(_commit(store, stop))
        while await store.last_step() < 10:
            pass
        if how == "immediate":
            await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        else:
            await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        before = await store.last_step()
        while await store.last_step() < before + 5:
            pass
        stop.set()
        acknowledged = await working
        assert await store.last_step() == acknowledged
        steps = range(1, acknowledged + 1)
        assert await store.chunks(steps) == [chunk(number) for number in steps]
        found = await store.verify()
        assert [one for one in found if one.problems and one.name != "texts"] == []
        assert await store.owner() is not None


async def _commit(store: PostgresStore, stop: asyncio.Event) -> int:
    number = 0
    while not stop.is_set():
        number += 1
        await store.commit_step(chunk(number))
    return number


async def test_a_server_that_stays_away_is_said_and_loses_nothing(own_server: Server) -> None:
    address = own_server.database().of("s")
    store = await PostgresStore.open(address, create=True, busy_timeout_s=0.3)
    await store.claim("run")
    await store.commit_step(chunk(1))
    await asyncio.to_thread(own_server.stop)
    with pytest.raises(StoreFault, match="cannot be reached") as caught:
        await store.commit_step(chunk(2))
    assert caught.value.retryable
    with pytest.raises(StoreFault, match="cannot be reached"):
        await store.last_step()
    await store.aclose()
    await asyncio.to_thread(own_server.start)
    async with await PostgresStore.open(address, create=False) as again:
        earlier = await again.claim("resumed")
        assert earlier is not None
        assert earlier.label == "run"
        assert await again.last_step() == 1
        await again.commit_step(chunk(2))


def test_a_session_is_resumed_after_its_server_was_killed(zygote: Zygote, disk: Path, own_server: Server) -> None:
    """First the client dies in the middle of a commit, then the server; the session comes to the same end."""
    database = own_server.database()
    reference = Uninterrupted(zygote, disk / "reference", FOLDING, database)
    begin(disk / "both", database)
    survivor = Survivor(disk / "both")
    assert survivor.session(zygote, deadly=["commit_step:written", 5]).killed
    own_server.kill()
    own_server.start()
    survivor.look()
    assert not survivor.session(zygote).killed
    survivor.finished(reference.transcript)


def error(name: str) -> Callable[[], Exception]:
    """What the driver raises, by the name of its class."""

    def make() -> Exception:
        import psycopg

        found = getattr(psycopg.errors, name, None) or getattr(psycopg, name)
        return found("injected")  # type: ignore[no-any-return]

    return make


KINDS = {
    "write": kind(":begun", error("OperationalError"), *FAILED),
    "io": kind(":written", error("IoError"), *FAILED),
    "full": kind(":written", error("DiskFull"), "storage_full", "StoreFull"),
    "serialisation": kind(":written", error("SerializationFailure"), "store_busy", "StoreBusy"),
    "locked": kind(":begun", error("LockNotAvailable"), "store_busy", "StoreBusy"),
    "answer of a commit": kind(":committed", error("OperationalError"), *FAILED),
    "cancelled at a commit": kind(":committed", Cancelled, "cancelled"),
}


@pytest.mark.parametrize("name", ["write", "full", "cancelled at a commit"])
async def test_a_fault_now_and_then(disk: Path, postgres: Server, name: str) -> None:
    """At one write; the nightly test takes every twelfth one, and every kind of fault."""
    chosen, rng, folder = KINDS[name], random.Random(name), disk / f"whole-{KINDS[name].at.strip(':')}"
    folder.mkdir(exist_ok=True)
    whole = await uninterrupted(folder, chosen.at)
    await check(folder, chosen, rng.randrange(len(whole.passed) // 2) + 1, whole, postgres.database())


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", KINDS)
async def test_a_fault_at_every_twelfth_write(disk: Path, postgres: Server, name: str) -> None:
    """Some 60 seconds, all kinds together."""
    chosen, database, folder = KINDS[name], postgres.database(), disk / f"whole-{KINDS[name].at.strip(':')}"
    folder.mkdir(exist_ok=True)
    whole = await uninterrupted(folder, chosen.at)
    for n in range(1, len(whole.passed) + 1, 12):
        await check(folder, chosen, n, whole, database)
