"""Sessions in a database, by the command line: begun, resumed, shown, checked, listed, exported, moved and removed."""

from __future__ import annotations

import logging
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.errors import NotStored, StoreFault
from memory.store.address import Address, is_address, masked, parse_address
from memory.store.postgres_link import fault_of
from runners.environment import Environment, forget_secrets, read_environment
from runners.errors import UsageFault
from runners.folders import SessionFolder, new_folder
from runners.redact import MASK, Redactor
from runners.sessions.transfer import pull_session
from runners.stores import find_session, knowing, new_session
from tests.memory.store.test_transfer import rows
from tests.runners.command import Command, Ended
from tests.runners.sessions.made import make_session
from tests.runners.test_cli_run import QUESTION, SHORT
from tests.support.postgres import Server

CANARY = "canary-p4ss%2Fword"


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def database(postgres: Server) -> str:
    return postgres.database().url


def test_a_session_lives_in_a_database(command: Command, corpus: Path, database: str) -> None:
    address = f"{database}#film"
    begun = command("run", QUESTION, "--corpus", str(corpus), "--out", address, *SHORT)
    assert begun.report["session"] == "film", begun.err
    again = command("run", QUESTION, "--corpus", str(corpus), "--out", address, *SHORT)
    assert again.code == 2
    assert "already holds a session" in again.err and address in again.err
    ended = command("resume", address, "-q", "-c", "limits.max_tokens=100000")
    assert ended.code == 0, ended.err
    assert ended.report["answer"].splitlines()[0] == "Bodø"
    assert not (command.home / "runs").exists()
    shown = command("show", address)
    assert len(shown.report["steps"]) == ended.report["steps"]
    checks = {check["name"]: check for check in command("doctor", "--session", address).report["checks"]}
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert address in checks["store"]["detail"]
    (listed,) = command("sessions", "list", "--at", database).report["sessions"]
    assert (listed["session"], listed["status"], listed["folder"]) == ("film", "completed", address)
    assert command("memory", "size", address).report["steps"] == ended.report["steps"]
    compacted = command("memory", "compact", address, "--hot", "2")
    assert compacted.report["packed"] == ended.report["steps"] - 2, compacted.err
    assert len(command("show", address).report["steps"]) == ended.report["steps"]
    assert command("sessions", "rm", address, "-y", report=False).code == 0
    assert command("sessions", "list", "--at", database).report["sessions"] == []
    gone = command("resume", address, "-q")
    assert (gone.code, "no session" in gone.err) == (2, True)
    assert command("doctor", "--session", address, report=False).code == 2
    assert not (command.home / "databases").exists() or not list((command.home / "databases").iterdir())


def test_the_environment_names_a_database(
    command: Command, corpus: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSTRIDE_STORE", database)
    name = command("run", QUESTION, "--corpus", str(corpus), *SHORT).report["session"]
    monkeypatch.setenv("LONGSTRIDE_STORE", database)  # a command forgets what it has read
    assert command("show", name[:15]).report["session"] == name[:15]
    monkeypatch.setenv("LONGSTRIDE_STORE", database)
    assert [one["session"] for one in command("sessions", "list").report["sessions"]] == [name]
    monkeypatch.setenv("LONGSTRIDE_STORE", database)
    (found,) = [check for check in command("doctor").report["checks"] if check["name"] == "LONGSTRIDE_STORE"]
    assert (found["state"], "sessions there: 1" in found["detail"]) == ("ok", True)


def test_there_and_back_exports_the_same_bytes(command: Command, database: str, tmp_path: Path) -> None:
    folder = make_session(command.home, "a")
    (folder.workspace / "deep").mkdir(parents=True)
    (folder.workspace / "deep" / "plot.png").write_bytes(b"\x89PNG\0\xff")
    for form in ("jsonl", "atif"):
        command("sessions", "export", "a", "--format", form, "--out", f"before.{form}", report=False)
    pushed = command("sessions", "push", "a", database, report=False)
    assert (pushed.code, pushed.out) == (0, f"{database}#a\n"), pushed.err
    assert "is equal" in command("sessions", "push", "a", database, report=False).out
    command("sessions", "export", f"{database}#a", "--out", "there.jsonl", report=False)
    assert "is equal" in command("sessions", "pull", f"{database}#a", report=False).out
    pulled = command("sessions", "pull", f"{database}#a", "--out", "copy/a", report=False)
    assert (pulled.code, pulled.out) == (0, "copy/a\n"), pulled.err
    for form in ("jsonl", "atif"):
        command("sessions", "export", "copy/a", "--format", form, "--out", f"after.{form}", report=False)
        assert Path(f"after.{form}").read_bytes() == Path(f"before.{form}").read_bytes()
    assert Path("there.jsonl").read_bytes() == Path("before.jsonl").read_bytes()
    assert Path("copy/a/files/deep/plot.png").read_bytes() == b"\x89PNG\0\xff"
    assert "policy" in Path("copy/a/config.yaml").read_text()
    for source, name in ((f"{database}#a", "there"), ("a", "here")):
        ended = command("sessions", "export", source, "--format", "tar", "--out", f"{name}.tar", report=False)
        assert ended.code == 0, ended.err
        with tarfile.open(f"{name}.tar") as tar:
            tar.extractall(tmp_path / name, filter="data")
        assert (tmp_path / name / "a" / "files" / "deep" / "plot.png").read_bytes() == b"\x89PNG\0\xff"
    assert rows(tmp_path / "there" / "a" / "session.sqlite") == rows(tmp_path / "here" / "a" / "session.sqlite")
    gone = command("sessions", "pull", f"{database}#none", report=False)
    assert gone.code == 2
    assert not (command.home / "runs" / "none").exists()


def test_a_fork_in_a_database_is_the_fork_of_a_file(
    command: Command, corpus: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_session(command.home, "a")
    folder.workspace.mkdir()
    (folder.workspace / "a.csv").write_text("1,2")
    assert command("sessions", "push", "a", database, report=False).code == 0
    other = f"{database}#named"
    made = {
        "file": command("fork", "a", "--at-step", "5").report["folder"],
        "within": command("fork", f"{database}#a", "--at-step", "5").report["folder"],
        "named": command("fork", f"{database}#a", "--at-step", "5", "--out", other).report["folder"],
        "up": command("fork", "a", "--at-step", "5", "--out", database).report["folder"],
        "down": command("fork", f"{database}#a", "--at-step", "5", "--out", "down").report["folder"],
    }
    assert made["named"] == other and made["down"] == "down"
    assert made["within"].startswith(f"{database}#2") and made["up"].startswith(f"{database}#2")
    for name, where in made.items():
        exported = command("sessions", "export", where, "--out", f"{name}.jsonl", report=False)
        assert exported.code == 0, exported.err
        assert Path(f"{name}.jsonl").read_bytes() == Path("file.jsonl").read_bytes(), name
        if "#" in where:
            where = command("sessions", "pull", where, "--out", f"pulled-{name}", report=False).out.strip()
        assert (Path(where) / "files" / "a.csv").read_text() == "1,2", name
    monkeypatch.setenv("LONGSTRIDE_STORE", database)
    assert command("fork", "named", report=False).out.startswith(f"{database}#2")
    for arguments in (["--out", other], ["--at-step", "99"], ["--at-step", "99", "--out", "down2"], ["--out", "down"]):
        ended = command("fork", f"{database}#a", *arguments, report=False)
        assert ended.code in (1, 2) and ended.error.startswith("longstride: "), arguments
    assert not Path("down2").exists()
    assert len(command("sessions", "list", "--at", database).report["sessions"]) == 5 + 2


def test_a_fork_goes_another_way_there(command: Command, corpus: Path, database: str) -> None:
    command("run", QUESTION, "--corpus", str(corpus), "--out", f"{database}#film", "-q")
    before = command("show", f"{database}#film").report
    made = command("fork", f"{database}#film", "--at-step", "2", report=False)
    went_on = command("resume", made.out.strip(), "-q", "--say", "When was the harbour of Varden rebuilt?")
    assert "1831" in went_on.report["answer"], went_on.err
    assert command("show", f"{database}#film").report == before


def test_what_fits_no_session_of_the_database_says_so(
    command: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pre-1", "pre-2", "whole"):
        make_session(command.home, name)
        command("sessions", "push", name, database, report=False)
    shutil.rmtree(command.home / "runs")

    def by_name(*arguments: str) -> Ended:
        monkeypatch.setenv("LONGSTRIDE_STORE", database)  # a command forgets what it has read
        return command(*arguments, report=False)

    assert by_name("show", "who").code == 0
    for arguments in (("show",), ("fork",), ("sessions", "rm", "-y"), ("sessions", "rm", "--dry-run")):
        several, none = by_name(*arguments, "pre"), by_name(*arguments, "nosuch")
        assert several.code == none.code == 2
        assert f"fits 2 sessions of {database}: pre-1, pre-2" in several.error
        assert f"'nosuch': there is none below {command.home / 'runs'}; nor is it one of the 3 of" in none.error
    gone = command("sessions", "rm", f"{database}#whole", f"{database}#nosuch", "-y", report=False)
    assert (gone.code, gone.out) == (2, "") and "no session" in gone.error
    assert "longstride sessions pull" in command("replay", f"{database}#whole", report=False).error


def test_what_cannot_be_removed_says_why(command: Command, database: str, postgres: Server) -> None:
    make_session(command.home, "a")
    command("sessions", "push", "a", database, report=False)
    with postgres.connect(database.rpartition("/")[2]) as link:
        link.execute("CREATE ROLE looker LOGIN")
        link.execute("GRANT USAGE ON SCHEMA longstride, longstride_session TO looker")
        link.execute("GRANT SELECT ON ALL TABLES IN SCHEMA longstride, longstride_session TO looker")
        try:
            mine = f"{database.replace('longstride@', 'looker@')}#a"
            refused = command("sessions", "rm", mine, "-y", report=False)
            assert refused.code == 1 and "a: not removed: " in refused.error and "may not" in refused.error
            # who may only read can take a copy
            assert command("sessions", "pull", mine, "--out", "mine", report=False).out == "mine\n"
        finally:
            link.execute("DROP OWNED BY looker")
            link.execute("DROP ROLE looker")
    for wrong, said in ((f"postgresql://me:{CANARY}@127.0.0.1:1/x#a", "reached"), (f"{database}no#a", "no such data")):
        ended = command("sessions", "rm", wrong, "-y", report=False)
        assert ended.code != 0 and said in ended.error and "canary" not in ended.err


def test_retention_in_a_database_is_asked_for(command: Command, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        make_session(command.home, name)
        command("sessions", "push", name, database, report=False)
    monkeypatch.setenv("LONGSTRIDE_STORE", database)
    on_disk = command("sessions", "rm", "--keep", "1", "--dry-run", report=False)
    assert on_disk.out.splitlines() == [f"would remove {command.home / 'runs' / 'b'}", "1 sessions"]
    there = command("sessions", "rm", "--keep", "1", "--at", database, "-y", report=False)
    assert (there.code, there.out) == (0, "removed b\n"), there.err
    assert command("sessions", "list", "--at", database).report["sessions"][0]["session"] == "a"
    assert sorted(path.name for path in (command.home / "runs").iterdir()) == ["a", "b"]
    down = command("sessions", "rm", "--keep", "1", "--at", "postgresql://127.0.0.1:1/x", "-y", report=False)
    assert down.code == 1 and "not all sessions are known" in down.error


def test_a_pull_takes_along_what_was_made_on_this_machine(command: Command, corpus: Path, database: str) -> None:
    command("run", QUESTION, "--corpus", str(corpus), "--out", f"{database}#film", *SHORT)
    made = next((command.home / "databases").glob("*/film")) / "files"
    made.mkdir()
    (made / "plot.svg").write_text("<svg/>")
    for verb, out in (("pull", "pulled"), ("fork", "forked")):
        group = ("sessions", "pull") if verb == "pull" else ("fork",)
        assert command(*group, f"{database}#film", "--out", out, report=False).code == 0
        assert Path(out, "files", "plot.svg").read_text() == "<svg/>"


def test_a_database_that_is_down_hides_no_file(
    command: Command, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_session(command.home, "a")
    down = f"postgresql://me:{CANARY}@127.0.0.1:1/x"
    for arguments in ((), ("--at", down)):
        if not arguments:
            monkeypatch.setenv("LONGSTRIDE_STORE", down)
        ended = command("sessions", "list", *arguments)
        assert ended.code == 1 and "reached" in ended.error and "canary" not in ended.err
        assert [one["session"] for one in ended.report["sessions"]] == ["a"]
        (missing,) = ended.report["missing"]
        assert missing["database"] == "postgresql://me@127.0.0.1:1/x" and "reached" in missing["problem"]
        assert "1 sessions" in ended.out and "canary" not in f"{ended.out}{ended.report}"


def test_one_figure_for_the_size_of_a_session(command: Command, database: str) -> None:
    make_session(command.home, "a")
    command("sessions", "push", "a", database, report=False)
    listed = {one["folder"]: one["bytes"] for one in command("sessions", "list", "--at", database).report["sessions"]}
    assert listed[f"{database}#a"] == command("memory", "size", f"{database}#a").report["file"] > 1_000


def test_no_server_is_one_line(command: Command) -> None:
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    for arguments in (("show",), ("resume",), ("doctor", "--session")):
        ended = command(*arguments, f"postgresql://me:{CANARY}@127.0.0.1:1/x#a")
        assert ended.code != 0
        assert "127.0.0.1:1" in ended.err + ended.out
        assert "canary" not in ended.err + ended.out
    assert "names a database" in command("show", "postgresql://127.0.0.1:1/x").error
    assert "database" in command("show", "postgresql://127.0.0.1:1").error


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_password_shows_nowhere_and_makes_no_folder(command: Command, scheme: str) -> None:
    address = f"{scheme}://me:{CANARY}@127.0.0.1:1/x#a"
    make_session(command.home, "a")
    for arguments in (
        ("fork", "a", "--at-step", "1", "--out", address),
        ("show", address),
        ("replay", address),
        ("sessions", "push", "a", address.replace("postgresql", "mysql")),
        ("bench", "report", address),
    ):
        ended = command(*arguments, report=False)
        assert ended.code != 0
        assert "canary" not in ended.err + ended.out, arguments
    for path in (Path(address), Path(f"{scheme}:") / "x"):
        with pytest.raises(UsageFault, match="an address"):
            new_folder(command.home, path)
        with pytest.raises(UsageFault, match="an address"):
            pull_session(SessionFolder(path, Address("postgresql://127.0.0.1:1/x", "a")), SessionFolder(path))
    assert not Path(f"{scheme}:").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:p%2Fw@h:1/x#a: no", "postgresql://me:***@h:1/x#a: no"),
        ("postgresql:/me:p@w@h/x, mysql://:q@h", "postgresql:/me:***@h/x, mysql://:***@h"),
        ("postgresql://me@h:5432/x http://h:80/a@b", "postgresql://me@h:5432/x http://h:80/a@b"),
    ],
)
def test_passwords_of_addresses_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "said", ["fe_sendauth: no password supplied", 'FATAL: no pg_hba.conf entry for host "h"', "authentication failed"]
)
def test_who_is_not_let_in_is_told_so(said: str) -> None:
    psycopg = pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    fault = fault_of(psycopg.OperationalError(f"connection failed: {said}"), Address("postgresql://h/x"))
    assert isinstance(fault, StoreFault) and "password" in fault.hint and "reached" not in str(fault)


def test_addresses() -> None:
    address = parse_address(f"postgresql://me:{CANARY}@db.example:5432/x?sslmode=require&password=q#a-1")
    assert str(address) == "postgresql://me@db.example:5432/x?sslmode=require#a-1"
    assert "canary" not in repr(address)
    assert set(address.passwords) == {"q", CANARY, "canary-p4ss/word"}
    assert address.of("b").session == "b"
    assert not is_address("runs/postgresql")
    for wrong in ("postgresql://h", "postgresql://h/x#a b", "mysql://h/x", "postgresql://h/x#../a"):
        with pytest.raises(ValueError, match=r"address|name") as caught:
            parse_address(wrong)
        assert wrong not in str(caught.value)


def test_a_password_is_cut_out_of_everything(tmp_path: Path) -> None:
    variables = {"LONGSTRIDE_STORE": f"postgresql://me:{CANARY}@h/x", "PGPASSWORD": "another-secret"}
    environment = read_environment(variables, tmp_path)
    assert environment.given("LONGSTRIDE_STORE") == variables["LONGSTRIDE_STORE"]
    redact = Redactor(environment.secrets.values())
    assert redact(f"{CANARY} another-secret canary-p4ss/word") == f"{MASK} {MASK} {MASK}"
    assert "LONGSTRIDE_STORE" in forget_secrets(variables) and "PGPASSWORD" in variables
    folder = new_session(Environment(tmp_path), f"postgresql://me:{CANARY}@h/x")
    assert folder.name and CANARY not in f"{folder} {folder!r} {folder.path}"
    assert Redactor(knowing(Environment(tmp_path), folder).secrets.values())(CANARY) == MASK
    pytest.importorskip("psycopg", reason="NO POSTGRES: psycopg is not installed")
    fault = fault_of(ValueError(f"no {CANARY}"), folder.address or Address(""))
    assert isinstance(fault, StoreFault) and "canary" not in str(fault)


def test_an_address_as_it_is_shown_is_that_of_the_environment(tmp_path: Path) -> None:
    """What a command prints can be given to the next one."""
    environment = read_environment({"LONGSTRIDE_STORE": f"postgresql://me:{CANARY}@h/x"}, tmp_path)
    for shown, password in (("me@h/x#a", True), ("me@h/y#a", False), ("you@h/x#a", False), ("me:other@h/x#a", False)):
        for folder in (
            find_session(environment, f"postgresql://{shown}"),
            new_session(environment, f"postgresql://{shown}"),
        ):
            assert folder.address is not None and folder.name == "a"
            assert (CANARY in folder.address.passwords) == password
    wrong = read_environment({"LONGSTRIDE_STORE": "nonsense"}, tmp_path)
    assert find_session(wrong, "postgresql://me@h/x#a").name == "a"


def test_names_that_are_nowhere(tmp_path: Path) -> None:
    with pytest.raises(NotStored):
        find_session(Environment(tmp_path), "x")
    with pytest.raises(UsageFault, match="names a database"):
        find_session(Environment(tmp_path), "postgresql://h/x")
