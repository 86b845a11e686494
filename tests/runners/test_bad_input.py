"""A hundred wrong command lines and files: each ends with exit code 2, one line that says what is wrong and where, and
no traceback; nothing is left behind. Tables of one part stand with that part (backbones, policies, MCP, the web)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.command import Command

RUN = ["run", "q?", "--corpus", "corpus", "-q"]
FILES: dict[str, str | bytes] = {
    "corpus/a.md": "# A\n\nThe bridge was built in 1831.\n",
    "empty/.keep": "",
    "notes.txt": "x",
    "bad.yaml": "a: [1\n",
    "list.yaml": "- a\n",
    "binary.yaml": b"\xff\xfe\x00",
    "deep.yaml": "a: " + "[" * 500,
    "key.yaml": "memory: {budgt: 1}\n",
    "twice.yaml": "memory: {budget: 1, budget: 2}\n",
    "unknown.yaml": "backbone: nosuch\n",
    "laughs.yaml": "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else '1'] * 9)}]\n" for n in range(7)),
    "code.yaml": "a: !!python/object/apply:os.system [id]\n",
    "nul.yaml": 'a: "\x00"\n',
    "flat.yaml": "kind: openai\nmodel: m\n",
    "broken.jsonl": '{"url": 1}\nnope\n',
    "empty.jsonl": "",
    "prices.yaml": "prices: [1]\n",
}
LINES: list[tuple[list[str], str]] = [
    ([], ""),
    (["polcies"], "No such command 'polcies'. Did you mean 'policies'?"),
    (["run"], "Missing argument 'question' (`longstride run --help`"),
    (["run", "q?", "more"], "unexpected extra argument"),
    (["run", "q?", "--polcy", "x"], "No such option: --polcy (Possible options: --policy"),
    (["run", "q?", "--log-level", "loud"], "'loud' is not one of 'debug', 'info'"),
    (["run", "q?", "--steps", "0"], "'--steps': Input should be greater than or equal to 1"),
    (["run", "q?", "--steps", "x"], "'--steps': Input should be a valid integer"),
    (["run", "q?", "-c"], "Option '-c' requires an argument"),
    (["run", " "], "the question is empty"),
    (["run", "q?", "--corpus", ""], "--corpus is empty (a folder, a .jsonl of pages, or pydoc:)"),
    (["run", "q?", "--corpus", "nope"], "no such corpus: nope"),
    (["run", "q?", "--corpus", "pydoc:os"], "no such corpus: pydoc:os (a folder, a .jsonl of pages, or pydoc:)"),
    (["run", "q?", "--corpus", "https://example.org/"], "no such corpus: https://example.org/"),
    (["run", "q?", "--corpus", "empty", "-q"], "nothing readable in the corpus 'empty'"),
    (["run", "q?", "--corpus", "notes.txt", "-q"], "not a corpus: 'notes.txt' (give a folder"),
    (["run", "q?", "--corpus", "broken.jsonl", "-q"], "2 lines are not pages; line 1: Field required"),
    (["run", "q?", "--corpus", "empty.jsonl", "-q"], "nothing readable in the corpus 'empty.jsonl'"),
    (["run", "q?", "--file", "nope.pdf"], "no such file:"),
    (["run", "q?", "--file", "empty"], "no such file:"),
    (["run", "q?"], "SERPER_API_KEY"),
    ([*RUN, "--out", "notes.txt"], "cannot make notes.txt: File exists"),
    ([*RUN, "--json", "nope/x.json"], "--json nope/x.json: cannot be written: no such folder"),
    ([*RUN, "--config", "nope.yaml"], "--config nope.yaml: cannot be read: No such file"),
    ([*RUN, "--config", "empty"], "--config empty: cannot be read: Is a directory"),
    ([*RUN, "--config", "bad.yaml"], "bad.yaml:2: not readable as YAML: expected ',' or ']'"),
    ([*RUN, "--config", "list.yaml"], "list.yaml: must be a mapping of keys to values"),
    ([*RUN, "--config", "binary.yaml"], "--config binary.yaml: cannot be read: not UTF-8 text"),
    ([*RUN, "--config", "deep.yaml"], "deep.yaml"),
    ([*RUN, "--config", "key.yaml"], "unknown key 'memory.budgt'; did you mean 'memory.budget'?"),
    ([*RUN, "--config", "twice.yaml"], "the key 'budget' stands twice"),
    ([*RUN, "--config", "unknown.yaml"], "unknown.yaml: unknown backbone 'nosuch': choose from anthropic"),
    ([*RUN, "--config", "laughs.yaml"], "laughs.yaml: more than 100,000 values"),
    ([*RUN, "--config", "code.yaml"], "code.yaml:1: not readable as YAML"),
    ([*RUN, "--config", "nul.yaml"], "nul.yaml: not readable as YAML: unacceptable character"),
    ([*RUN, "--profile", "papr"], "unknown profile 'papr': choose from default, paper; did you mean 'paper'?"),
    ([*RUN, "--profile", "x.yaml"], "--profile: profile file x.yaml: cannot be read"),
    ([*RUN, "--policy", "binary.yaml"], "--policy: policy file binary.yaml: cannot be read: not UTF-8 text"),
    ([*RUN, "--backbone", "binary.yaml"], "--backbone: backbone file binary.yaml: cannot be read: not UTF-8 text"),
    ([*RUN, "--backbone", "opnai"], "did you mean 'openai'?"),
    ([*RUN, "--backbone", "openai"], "OPENAI_API_KEY is not set (export OPENAI_API_KEY=..."),
    ([*RUN, "--backbone", "anthropic"], "ANTHROPIC_API_KEY is not set"),
    ([*RUN, "--backbone", "deepseek"], "DEEPSEEK_API_KEY is not set"),
    ([*RUN, "--backbone", "gemini"], "GEMINI_API_KEY is not set"),
    ([*RUN, "--backbone", "openrouter"], "OPENROUTER_API_KEY is not set"),
    (["resume", "nope"], "no session 'nope'"),
    (["resume", "s", "--say", " "], "--say is empty"),
    (["show", "nope"], "no session 'nope'"),
    (["fork", "nope"], "no session 'nope'"),
    (["sessions", "export", "nope", "--format", "pdf"], "'pdf' is not one of 'jsonl', 'alibaba'"),
    (["sessions", "rm"], "which session? (name it, or say --older-than, --keep or --status)"),
    (["sessions", "rm", "--older-than", "3 moons", "-y"], "not an age (a number and s, m, h, d or w, as in 30d)"),
    (["sessions", "list", "--status", "hapy"], "--status hapy: no such status (auth, "),
    (["memory", "compact", "s", "--similar", "2"], "'--similar': Input should be less than or equal to 1"),
    (["memory", "size", "nope"], "no session 'nope'"),
    (["tool", "nope"], "no tool 'nope' here: search, visit, python, parse_file"),
    (["tool", "search", "{"], "the arguments are not JSON"),
    (["tool", "search", "[]"], "the arguments are not a JSON object"),
    (["tool", "search", '{"queries":["a"]}'], "there is nothing to search (give --corpus PATH"),
    (["tool", "parse_file"], "there is no file to read (give --file PATH)"),
    (["policies", "--json", "nope/x"], "--json nope/x: cannot be written"),
    (["replay"], "name at least one FILE of recorded runs"),
    (["replay", "nope.jsonl"], "nope.jsonl: no such file"),
    (["replay", "broken.jsonl"], "broken.jsonl:1: no known form of a recorded run"),
    (["replay", "broken.jsonl", "--policy", "nope"], "unknown policy 'nope'"),
    (["replay", "broken.jsonl", "--budget", "x"], "--budget x: not a list of numbers"),
    (["replay", "broken.jsonl", "--budget", "0"], "--budget: must be positive"),
    (["replay", "broken.jsonl", "--cached", "--prices", "nope"], "--prices nope: cannot be read: No such file"),
    (["replay", "broken.jsonl", "--cached", "--prices", "prices.yaml"], "--prices prices.yaml: "),
    (["bench", "run", "nope", "--data", "corpus", "--out", "o"], "unknown benchmark 'nope': choose from gaia"),
    (["bench", "run", "gaia", "--data", "nope", "--out", "o"], "--data nope: no such file or folder"),
    (["bench", "run", "gaia", "--data", "empty", "--out", "o"], "--data empty: none of metadata.jsonl"),
    (["bench", "run", "gaia", "--data", "empty", "--out", "o", "--shard", "3/2"], "--shard 3/2: must look like 1/4"),
    (["bench", "resume", "nope"], "nope: no run to go on with"),
    (["bench", "report", "nope"], "nope: no results in it"),
    (["bench", "submit", "nope"], "Missing option '--policy'"),
    (["memory-eval", "nope", "--data", "x"], "'nope' is not one of 'longmemeval', 'locomo'"),
    (["memory-eval", "locomo", "--data", "nope"], "--data nope: no such file or folder"),
    (["fit-profile", "nope.jsonl", "--out", "f.yaml"], "nope.jsonl: no such file"),
    (["models", "push"], "'push' is not one of 'list', 'pull'"),
    (["doctor", "-c", "x=1"], "-c x=1: unknown key 'x'"),
    (["dev-server", "--port", "99999999"], "'--port': Input should be less than or equal to 65000"),
    (["dev-server", "--obedient", "--script", "notes.txt"], "--script and --obedient: the model can be one of them"),
    (["mcp"], "Missing argument 'FOLDER|ADDRESS'"),
]
OPTIONS = {
    "x": "-c x: must look like key.path=value",
    "=1": "must look like key.path=value",
    "memory..budget=1": "must look like key.path=value",
    "memory=5": "memory: must hold keys with values of their own (got 5)",
    "memory.budget=abc": "memory.budget: input should be a valid integer",
    "memory.budget=[1": "-c memory.budget=[1",
    "policy.lambda=x": "policy.lambda: input should be a valid number",
    "policy.name=nope": "unknown policy 'nope': choose from boundary",
    "backbone.kind=nope": "backbone.kind: input should be 'openai', 'anthropic'",
    "backbone.base_url=http://[::1": ": backbone.base_url: 'http://[::1' is no base_url: write it like https://host/v1",
    "backbone.base_url=[]": "base_url is an empty list: leave it out",
    "backbone.api_key_env=MY_CREDENTIAL": "backbone.api_key_env: string should match pattern",
    "backbone.model=3": "backbone.model: input should be a valid string (got 3)",
    "backbone.max_output_tokens=0": "backbone.max_output_tokens: input should be greater than or equal to 16",
    "backbone.sampling.temperature=hot": "backbone.sampling.temperature: input should be a valid number",
    "backbone.sampling.temprature=1": "did you mean 'backbone.sampling.temperature'?",
    "dialect=native": "it cannot speak the dialect 'native' (choose another --backbone, or the dialect guided)",
    "encoder.kind=nope": "encoder.kind: input should be 'embedded', 'hashing'",
    "encoder.kind=http": "an encoder of kind http needs base_url and model",
    "summaries.publish=never": "summaries.publish: input should be 'async' or 'lockstep'",
    "summary_backbone=openai": "summary_backbone: must hold keys with values of their own (got 'openai')",
    "summary_backbone.kind=openai": "kind openai needs a model",
    "limits.max_steps=1.5": "limits.max_steps: input should be a valid integer",
    "limits.max_cost_usd=-1": "limits.max_cost_usd: input should be greater than 0",
    "search.providers=[google]": "unknown search provider 'google': choose from serper",
    "search.results=1000": "search.results: input should be less than or equal to 50",
    "visit.robots=maybe": "visit.robots: input should be 'respect', 'warn' or 'off'",
    "fetch.allow_hosts=127.0.0.1:80": "fetch.allow_hosts: must be a list, as in [a, b]",
    "fetch.allow_hosts=[127.0.0.1]": "fetch.allow_hosts: expected host:port, not '127.0.0.1'",
    "fetch.ports=[99999]": "fetch.ports.0: input should be less than or equal to 65535",
    'fetch.user_agent="a\\nb"': "fetch.user_agent: string should match pattern",
    "python.where=nope": "python.where: input should be 'local', 'sandbox_fusion' or 'e2b'",
    "prices=1": "unknown key 'prices'",
    "mcp=1": "mcp: must hold keys with values of their own",
}
SETTINGS = {
    "OPENAI_BASE_URL": ("nonsense", ["--backbone", "openai"]),
    "ANTHROPIC_BASE_URL": ("localhost:80", ["--backbone", "anthropic"]),
    "SANDBOX_FUSION_ENDPOINT": ("nonsense", ["--backbone", "openai", "-c", "python.where=sandbox_fusion"]),
}


@pytest.fixture(autouse=True)
def _files(command: Command, tmp_path: Path) -> None:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_there_are_enough() -> None:
    assert len(LINES) + len(OPTIONS) + len(SETTINGS) >= 110


def refused(command: Command, arguments: list[str], said: str) -> None:
    ended = command(*arguments, report=False)
    assert ended.code == 2, (ended.out, ended.err)
    if arguments:
        assert said in ended.error
        assert len(ended.error) < 700 and "Traceback" not in ended.error
    assert not list(command.home.glob("runs/*")), "a session was begun"


@pytest.mark.parametrize(("arguments", "said"), LINES, ids=lambda value: " ".join(value)[:60] if value else "-")
def test_a_wrong_command_line(command: Command, arguments: list[str], said: str) -> None:
    refused(command, arguments, said)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_wrong_value(command: Command, option: str) -> None:
    refused(command, [*RUN, "-c", option], OPTIONS[option])


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_address_in_the_environment(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, options = SETTINGS[name]
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    monkeypatch.setenv(name, value)
    refused(command, [*RUN, *options], name)


def test_a_wrong_file_names_the_section_that_was_meant(command: Command) -> None:
    ended = command(*RUN, "--backbone", "flat.yaml", report=False)
    assert (ended.code, ended.err.splitlines()) == (2, [
        "longstride: flat.yaml: unknown key 'kind'; did you mean 'backbone.kind'?",
        "longstride: flat.yaml: unknown key 'model'; did you mean 'backbone.model'?",
    ])  # fmt: skip
