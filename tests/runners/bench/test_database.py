"""Benchmarks whose sessions are in a database: results, going on, exports, names, passwords, private sets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import StoreFault
from memory.store.address import NAME, Address
from memory.store.postgres import PostgresStore, session_names
from memory.store.postgres_database import opened
from runners.bench.datasets.registry import benchmark, load
from runners.bench.landmarks import InDatabase, landmark
from runners.bench.places import Shelf, identity_of, new_run, session_of, sessions_at, settled
from runners.bench.results import read_results
from runners.bench.rows import TrialKey
from runners.bench.secrecy import scan
from runners.bench.trial import Trial, run_trial
from runners.devserver.model_server import ModelServer, ScriptedTurn, WireRequest
from runners.devserver.wire import Turn
from runners.environment import Environment, read_environment
from runners.stores import open_store
from tests.runners.bench import made
from tests.runners.bench.test_crew import variant
from tests.runners.bench.test_kills import multihop_run, outcomes
from tests.runners.command import Command
from tests.support.postgres import Server

PASSWORD = "canary-p4ssw0rd"


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def database(postgres: Server) -> Address:
    """A new one, by an address with a password, which this server does not ask for."""
    address = postgres.database()
    return replace(address, url=address.url.replace("@", f":{PASSWORD}@"))


def test_results_exports_and_names_are_those_of_folders(command: Command, tmp_path: Path, database: Address) -> None:
    data, out, alone = made.multihop(tmp_path / "data"), tmp_path / "out", tmp_path / "alone"
    policies = ("--policy", "react,pace")
    assert command(*multihop_run(data, alone, *policies)).code == 0
    ended = command(*multihop_run(data, out, *policies, "--limit", "2", "--sessions", database.url))
    assert (ended.code, ended.report["done"]) == (0, 4), ended.err
    again = command(*multihop_run(data, out, *policies), report=False)
    assert again.code == 2
    assert f"sessions of this run are in {database}" in again.error and f"--sessions {database}" in again.error
    assert command(*multihop_run(data, out, *policies, "--sessions", database.url)).code == 0
    assert outcomes(out) == outcomes(alone)
    assert not (out / "sessions").exists()
    assert not list(command.home.glob("databases/*/*"))  # what a machine has of a trial goes with it
    names = asyncio.run(session_names(database))
    assert sorted(row["session"] for row in made.rows_of(out)) == names
    assert len({name.partition(".")[0] for name in names}) == 1
    # another run of the same has sessions of its own
    assert command(*multihop_run(data, tmp_path / "other", *policies, "--sessions", database.url)).code == 0
    assert len(asyncio.run(session_names(database))) == 16

    for form in ("alibaba", "openai", "atif"):
        for run in (out, alone):
            to = tmp_path / form / run.name
            ended = command("bench", "export", str(run), "--format", form, "--to", str(to), report=False)
            assert ended.code == 0, ended.err
        texts = [
            {path.relative_to(top): path.read_text() for path in top.rglob("*") if path.is_file()}
            for top in (tmp_path / form / "out", tmp_path / form / "alone")
        ]
        assert texts[0] and timeless(texts[0]) == timeless(texts[1]), form
    file = tmp_path / "answers.jsonl"
    submit = ("bench", "submit", str(out), "--policy", "pace", "--to", str(file), "--sessions", database.url)
    assert command(*submit, report=False).code == 0
    assert command("bench", "report", str(out)).code == 0
    shown = command("show", f"{database.url}#{names[0]}")
    assert len(shown.report["steps"]) >= 2
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


def timeless(texts: dict[Path, str]) -> dict[Path, str]:
    """Without the times at which steps were made, and what tokens a session's own delimiters took."""

    varying = ("created", "timestamp", "prompt_tokens", "total_prompt_tokens")

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in varying}
        return [bare(item) for item in value] if isinstance(value, list) else value

    def lines(path: Path, text: str) -> str:
        whole = [text] if path.suffix == ".json" else text.splitlines()
        return "\n".join(sorted(json.dumps(bare(json.loads(line))) for line in whole))

    return {path: lines(path, text) for path, text in texts.items()}


def test_a_trial_goes_on_anywhere(
    command: Command, tmp_path: Path, database: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the machine that did the first step nothing is left but the session."""
    data, out = made.multihop(tmp_path / "data", 1), tmp_path / "out"
    answering = made.Answering({"Who built the lighthouse of Alvik?": "Alvik Andersen"})

    failing = [True]

    def serving(request: WireRequest) -> ScriptedTurn:
        reply = answering(request)
        return Turn(status=503) if failing and len(answering.asked) > 1 else reply

    with ModelServer(serving) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "-c", "python.enabled=false")
        assert command(*multihop_run(data, out, *served, "--sessions", database.url)).code == 1
        assert [row["steps"] for row in made.rows_of(out)] == [1]
        asked = len(answering.asked)
        monkeypatch.setenv("LONGSTRIDE_HOME", str(tmp_path / "elsewhere"))
        failing.clear()
        ended = command("bench", "resume", str(out), "-q", "--sessions", database.url)
    assert (ended.code, len(answering.asked)) == (0, asked + 1), ended.err
    *_, row = made.rows_of(out)
    assert (row["status"], row["answer"], row["steps"], row["attempts"]) == ("completed", "Alvik Andersen", 2, 2)


async def test_a_session_killed_before_it_was_whole_begins_anew(
    command: Command, tmp_path: Path, database: Address
) -> None:
    key = TrialKey("pace", "q0", 1)
    corpus = made.multihop(tmp_path / "data") / "pages.jsonl"
    there = Shelf.in_database(command.home, database, new_run()).of(key)
    assert there.address is not None
    trial = Trial(
        key,
        "Who built the lighthouse of Alvik?",
        variant(tmp_path).tree(),
        str(there.path),
        (),
        str(corpus),
        there.address,
    )
    async with await open_store(there, create=True) as store:
        await store.claim("a worker that was killed")
        there.workspace.mkdir()
        held = await run_trial(trial, read_environment())
        assert (held.status, "belongs to process" in held.message) == ("store_busy", True), held.message
        assert there.workspace.exists()  # its owner may be at work
    row = await run_trial(trial, read_environment())
    assert row.status == "completed", row.message
    assert row.session == there.address.session
    # and what is whole is kept: its result was lost on the way
    again = await run_trial(trial, read_environment())
    assert (again.status, again.answer, again.steps, again.seconds) == ("completed", row.answer, row.steps, row.seconds)


async def test_a_server_that_is_gone_is_no_crash_and_shows_no_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    address = Address(f"postgresql://me:{PASSWORD}@127.0.0.1:1/x", "a")
    row = await run_trial(
        Trial(TrialKey("pace", "q0", 1), "?", {}, str(tmp_path / "a"), address=address), Environment(tmp_path)
    )
    assert (row.status, PASSWORD in row.message, row.finished) == ("storage_failed", False, False)
    assert "127.0.0.1:1" in row.message


def test_bad_addresses(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    data = made.multihop(tmp_path / "data")
    for address, code, said in (
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1/x", 1, "127.0.0.1:1/x: the server cannot be reached"),
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1/x#a", 2, "name the database"),
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1", 2, "an address names a database"),
        (f"mysql://me:{PASSWORD}@127.0.0.1:1/x", 2, "an address cannot be used as a folder"),
    ):
        ended = command(*multihop_run(data, tmp_path / "out", "--sessions", address), report=False)
        assert (ended.code, said in ended.error) == (code, True), ended.err
        assert PASSWORD not in ended.err + ended.out
    assert not made.rows_of(tmp_path / "out", "sessions")
    environment = Environment(tmp_path)
    assert sessions_at(environment, None) is None and sessions_at(environment, "a/b") == Path("a/b")


def test_the_password_travels_with_the_address(database: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Address(database.url.replace(f":{PASSWORD}", ""))
    assert settled(bare)[0] == bare
    monkeypatch.setenv("PGPASSWORD", "an ö & a =")
    there, identity = settled(bare)
    assert "an ö & a =" in there.passwords and str(there) == str(bare)
    assert settled(database)[0] == database
    monkeypatch.delenv("PGPASSWORD")
    assert identity_of(there) == identity


def test_a_password_that_only_the_driver_knows(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its environment, or of ~/.pgpass: workers have neither."""
    database = postgres.database()
    role = f"keeper_{database.url.rpartition('_')[2]}"
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{before}")
    with postgres.connect(database.url.rpartition("/")[2]) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"GRANT CREATE ON DATABASE {database.url.rpartition('/')[2]} TO {role}")
        connection.execute("SELECT pg_reload_conf()")
    try:
        address = Address(database.url.replace("longstride@", f"{role}@"))
        monkeypatch.setenv("PGPASSFILE", str(postgres.folder / "none"))
        with pytest.raises(StoreFault, match="password"):
            identity_of(address)
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        there, identity = settled(address)
        monkeypatch.delenv("PGPASSWORD")
        assert identity_of(there) == identity
        assert (str(there), there.passwords) == (str(address), (PASSWORD,))
    finally:
        rules.write_text(before)


def test_a_worker_that_reaches_no_database_or_another_one_is_told(postgres: Server, tmp_path: Path) -> None:
    one, other = postgres.database(), postgres.database()
    trial = Trial(TrialKey("pace", "q0", 1), "?", {}, str(tmp_path / "x"), address=one.of("a"))
    with landmark([trial]) as mark:
        mark.show()
        assert mark.missing() == ""
        assert isinstance(mark, InDatabase)
        assert f"reaches another database than the driver at {other}" in replace(mark, address=other).missing()
        gone = Address(f"postgresql://me:{PASSWORD}@127.0.0.1:1/x")
        said = replace(mark, address=gone).missing()
        assert said.startswith("does not reach the sessions' database: postgresql://me@127.0.0.1:1/x: ")
        assert PASSWORD not in said
    assert not (tmp_path / "x").exists()


def test_a_private_set_is_in_a_database_only_where_it_is_named(
    command: Command, tmp_path: Path, database: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, corpus = made.browsecomp(tmp_path / "data" / "browse.csv"), tmp_path / "pages"
    corpus.mkdir()
    (corpus / "page.md").write_text("# Almanac\n\nAn almanac of the harbour.\n", "utf-8")
    tasks = load(benchmark("browsecomp"), data, {}).tasks
    answers = {question: "Exact Answer: x" for question in made.SECRETS}
    with ModelServer(made.Answering(answers)) as server:
        served = ("--backbone", str(made.backbone(tmp_path, server.url)), "--corpus", str(corpus), "-q")
        run = ("bench", "run", "browsecomp", "--data", str(data), *served, "--out")
        monkeypatch.setenv("LONGSTRIDE_STORE", database.url)
        assert command(*run, str(tmp_path / "a")).code == 0
        with opened(database) as link:
            assert link.execute("SELECT to_regclass('longstride.sessions') IS NULL").fetchone()[0]
        ended = command(*run, str(tmp_path / "b"), "--sessions", database.url)
        assert ended.code == 0, ended.err
    with opened(database) as link:
        assert link.execute("SELECT COUNT(*) FROM longstride.sessions").fetchone()[0] == 2
    for out in (tmp_path / "a", tmp_path / "b"):
        assert len(made.rows_of(out)) == 2
        to = tmp_path / f"exported-{out.name}"
        exported = command("bench", "export", str(out), "--to", str(to), report=False)
        assert exported.code == 0, exported.err
        assert scan([out, to], tasks) == []
    assert not list(command.home.glob("databases/*/*"))


@given(st.lists(st.builds(TrialKey, st.text(max_size=40), st.text(max_size=200), st.integers(1, 9)), unique=True))
def test_no_two_trials_share_a_name(keys: list[TrialKey]) -> None:
    run = new_run()
    names = [session_of(run, key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(NAME.fullmatch(name) and len(name) <= 64 for name in names)


def test_a_session_that_was_removed_is_named(command: Command, tmp_path: Path, database: Address) -> None:
    data, out = made.multihop(tmp_path / "data", 1), tmp_path / "out"
    assert command(*multihop_run(data, out, "--sessions", database.url)).code == 0
    (kept,) = read_results([out / "results.jsonl"]).kept
    assert kept.database == str(database)
    (name,) = asyncio.run(session_names(database))

    async def remove() -> None:
        async with await PostgresStore.open(database.of(name), create=False) as store:
            await store.claim("test")
            await store.remove()

    asyncio.run(remove())
    gone = command("bench", "export", str(out), "--to", str(tmp_path / "to"), report=False)
    assert (gone.code, "its steps are gone" in gone.error, name in gone.error) == (2, True, True)
