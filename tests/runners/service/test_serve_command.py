"""`longstride serve` as a process of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from tests.runners.command import Command
from tests.runners.service.process import serving
from tests.runners.service.serving import MISSING, TOKEN

pytest.importorskip("uvicorn", reason=MISSING)


def test_it_serves_until_it_is_asked_to_end(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("The harbour of Varden\n\nInvoice 4711-B\n")
    options = ("--prewarm", "texts.txt", "-c", "encoder.kind=hashing", "--debug")
    with serving(tmp_path, *options, LONGSTRIDE_TOKEN=TOKEN) as (url, process):
        body = {"query": "harbour", "candidates": [{"id": "a", "text": "The harbour of Varden"}], "budget": 20}
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.post(f"{url}/select", json=body).status_code == 401
        answer = httpx.post(f"{url}/select_debug", json=body, headers=bearer)
        assert answer.json()["warm"] == 1, "made ahead of time"
        assert "server" not in answer.headers
        httpx.post(f"{url}/v1/sessions", json={"name": "a"}, headers=bearer).raise_for_status()
        httpx.post(f"{url}/v1/sessions/a/ingest", json={"text": "one"}, headers=bearer).raise_for_status()
        with httpx.stream("GET", f"{url}/v1/sessions/a/events", headers=bearer, timeout=30) as stream:
            lines = stream.iter_lines()
            while "event: step" not in next(lines):
                pass
            process.send_signal(signal.SIGINT)
            for _ in lines:
                pass
        assert process.wait(30) == 130
    said = (tmp_path / "stderr.txt").read_text()
    assert "Traceback" not in said and TOKEN not in said


@pytest.mark.parametrize(
    ("options", "variables", "reason"),
    [
        (("--host", "0.0.0.0"), {}, "loopback only"),
        ((), {"LONGSTRIDE_TOKEN": "short"}, "at least 16"),
        (("--prewarm", "none.txt"), {}, "cannot read none.txt"),
        (("--policy", "none"), {}, "none"),
    ],
)
def test_what_it_does_not_start_with(
    command: Command, options: tuple[str, ...], variables: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ended = command("serve", "--port", "0", "-c", "encoder.kind=hashing", *options)
    assert ended.code == 2 and reason in ended.err and "Traceback" not in ended.err
