"""Searching the web from the command line: keys, blocklists, offline replay, the servers for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from runners.devserver.search_emulator import SearchEmulator
from tests.runners.command import Command, interrupt
from tests.tools.web.loopback import connections
from tools.search.base import Hit

KEY = "canary-key-91c2"
QUERY = '{"queries": ["salt road"]}'


def find(query: str, n: int) -> list[Hit]:
    pages = ["https://one.test/a", "https://huggingface.co/datasets/gaia/x", "https://leak.test/b"]
    return [Hit(f"Title {number}", url, f"about {query}") for number, url in enumerate(pages)][:n]


@pytest.fixture
def emulator() -> Iterator[SearchEmulator]:
    with SearchEmulator(find, key=KEY) as running:
        yield running


@pytest.fixture
def configured(emulator: SearchEmulator, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the variables of some providers."""

    def configure(*names: str) -> None:
        for variable, value in emulator.environment.items():
            if any(variable.startswith(name.upper()) for name in names):
                monkeypatch.setenv(variable, value)

    return configure


def test_without_a_provider_the_variables_are_named(command: Command) -> None:
    ended = command("run", "Where is it?", "-q")
    assert ended.code == 2
    for name in ("SERPER_API_KEY", "TAVILY_API_KEY", "BRAVE_API_KEY", "EXA_API_KEY", "JINA_API_KEY", "SEARXNG_URL"):
        assert name in ended.error
    assert "--corpus" in ended.error


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("search.providers=exa", "search provider exa needs a key: EXA_API_KEY is not set"),
        ("search.providers=searxng", "search provider searxng needs the address of a server: SEARXNG_URL is not set"),
        ("search.providers=bing", "unknown search provider 'bing': choose from serper, tavily, brave"),
        ("search.blocked=[/x]", "search.blocked: not a host"),
        (
            "search.blocklists=[benchmark]",
            "unknown list 'benchmark': choose from benchmarks; did you mean 'benchmarks'?",
        ),
        ("search.blocklists=[nope.yaml]", "nope.yaml cannot be read"),
        ("visit.browser_path=/no/such -c visit.browser=auto", "/no/such is not there: install chromium"),
        ("visit.extractor=llm", "visit.extractor: llm needs a model"),
    ],
)
def test_bad_settings_are_one_line(command: Command, corpus: Path, option: str, said: str) -> None:
    web = () if option.startswith("search.providers") else ("--corpus", str(corpus))
    options = [part for one in option.split(" -c ") for part in ("-c", one)]
    ended = command("run", "Where is it?", "-q", *web, *options)
    assert ended.code == 2
    assert said in ended.error


def test_odd_keys_and_addresses(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", "kéy")
    assert "SERPER_API_KEY holds characters that no key has" in command("tool", "search", QUERY).error
    monkeypatch.setenv("SERPER_API_KEY", "key")
    monkeypatch.setenv("SERPER_BASE_URL", "localhost:80")
    assert "SERPER_BASE_URL is no address of a server" in command("tool", "search", QUERY).error


def test_providers_by_the_keys_there_are(
    command: Command, emulator: SearchEmulator, configured: Callable[..., None]
) -> None:
    configured("brave", "exa")
    ended = command("tool", "search", QUERY)
    assert ended.code == 0
    assert "https://one.test/a" in ended.out and "https://leak.test/b" in ended.out
    assert {asked.provider for asked in emulator.requests} == {"brave"}
    configured("brave", "exa")  # the command took the keys out of its environment
    ended = command("tool", "search", '{"queries": ["other"]}', "-c", "search.providers=[exa,brave]")
    assert ended.code == 0
    assert emulator.requests[-1].provider == "exa"
    assert KEY not in ended.out + ended.err + json.dumps(ended.report)


def test_blocked_pages_are_neither_listed_nor_visited(
    command: Command, configured: Callable[..., None], tmp_path: Path
) -> None:
    configured("searxng")
    (tmp_path / "mine.yaml").write_text("blocked:\n- leak.test\n")
    options = ("-c", "search.blocklists=[benchmarks,mine.yaml]")
    ended = command("tool", "search", QUERY, *options)
    assert "one.test" in ended.out
    assert "huggingface" not in ended.out and "leak.test" not in ended.out
    for url in ("https://huggingface.co/datasets/x", "https://leak.test/b"):
        with connections() as seen:
            visited = command("tool", "visit", json.dumps({"url": url}), *options)
        assert (visited.code, visited.report["error"], seen) == (1, "forbidden", [])
        assert "blocklist" in visited.out


def test_offline_replays_and_says_what_is_missing(
    command: Command, configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch, emulator: SearchEmulator
) -> None:
    configured("searxng")
    live = command("tool", "search", QUERY)
    monkeypatch.delenv("SEARXNG_URL")
    with connections() as seen:
        replayed = command("tool", "search", QUERY, "--offline")
        missing = command("tool", "search", '{"query": "never asked"}', "--offline")
        visited = command("tool", "visit", '{"url": "http://never.test/"}', "--offline")
    assert seen == []
    assert (replayed.code, replayed.out) == (0, live.out)
    assert (missing.code, missing.report["error"]) == (1, "not_found")
    assert "'never asked' was not recorded" in missing.out
    assert "offline: this page was not recorded" in visited.out
    ended = command("run", "What was never asked here?", "--offline", "-q")
    assert ended.code == 0  # the embedded backbone says that it found nothing
    assert len(emulator.requests) >= 1


def test_doctor_lists_the_providers_masked(command: Command, configured: Callable[..., None]) -> None:
    def search() -> dict[str, str]:
        ended = command("doctor")
        assert KEY not in ended.out + json.dumps(ended.report)
        (found,) = [check for check in ended.report["checks"] if check["name"] == "search"]
        return dict(found)

    assert search()["state"] == "warn"
    configured("serper", "searxng")
    found = search()
    assert found["state"] == "ok"
    assert found["detail"].startswith("serper (SERPER_API_KEY ***, http://127.0.0.1:")
    assert ", then searxng (http://127.0.0.1:" in found["detail"]


def test_the_servers_for_tests(command: Command, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started as a person would, and used by commands of their own."""
    (tmp_path / "script.jsonl").write_text('"Varden, in 1831."\n{"status": 400, "error": "no more"}\n')
    report = tmp_path / "servers.json"
    process = command.start("dev-server", "--corpus", str(corpus), "--script", "script.jsonl", "--json", str(report))
    assert process.stdout is not None
    while "Ctrl-C ends." not in (line := process.stdout.readline()):
        assert line
    servers = json.loads(report.read_text())
    assert set(servers) == {"model", "search", "hostile"}
    for variable, value in servers["search"]["environment"].items():
        monkeypatch.setenv(variable, value)
    found = command("tool", "search", '{"query": "Varden harbour"}', "-c", "search.providers=tavily")
    assert found.code == 0, found.err
    url = found.report["sources"][0]["url"]
    visited = command("tool", "visit", json.dumps({"url": url}), "-c", servers["search"]["options"][0])
    assert "rebuilt in 1831" in visited.out
    allowed = servers["hostile"]["options"][0]
    looped = command("tool", "visit", json.dumps({"url": servers["hostile"]["url"] + "redirect/loop"}), "-c", allowed)
    assert (looped.code, looped.report["error"]) == (1, "limit")
    with urlopen(servers["hostile"]["url"]) as page:
        assert b"/bomb/gzip" in page.read()
    monkeypatch.setenv("OPENAI_BASE_URL", servers["model"]["environment"]["OPENAI_BASE_URL"])
    ended = command(
        "run", "When?", "--corpus", str(corpus), "-q", "--backbone", "openai", "-c", "backbone.model=scripted"
    )
    assert ended.report["answer"].startswith("Varden, in 1831.")
    assert interrupt(process).code == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "holds no turns"), ("{", ":1: not JSON"), ('"a"\n{"txt": 1}', ":2: txt: Extra inputs"),
        ('{"status": 5}', ":1: status"), ("[1]", ":1:"), ("7", ":1:"),
    ],
)  # fmt: skip
def test_bad_scripts(command: Command, tmp_path: Path, script: str, said: str) -> None:
    (tmp_path / "s.jsonl").write_text(script)
    ended = command("dev-server", "model", "--script", "s.jsonl")
    assert ended.code == 2
    assert said in ended.error


def test_bad_servers(command: Command) -> None:
    assert "no server 'web' (choose from model, search, hostile, sandbox)" in command("dev-server", "web").error
    assert "no such corpus" in command("dev-server", "search", "--corpus", "/no/such").error
    with SearchEmulator(find) as taken:
        port = taken.url("").split(":")[2].strip("/")
        assert f"port {port} cannot be used" in command("dev-server", "model", "--port", port).error
