"""Services that run code, against emulators of their interfaces: what they do, and what goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from memory.records import Observation, ToolCall
from runners.devserver.sandbox_emulator import Fault, SandboxEmulator
from tools.python import e2b, fusion
from tools.python.base import MIB, Limits, SandboxFault, WorkFile, isolation
from tools.python.e2b import E2bAccess, E2bSandbox
from tools.python.fusion import FusionSandbox
from tools.python.local import LocalSandbox
from tools.python.mechanisms import available
from tools.python.tool import PythonTool
from tools.toolset import Toolset

KEY = "e2b_canary_9d41"
UNSENT = 'open("a/b.txt", "rb").read()'


@pytest.fixture
def emulator() -> Iterator[SandboxEmulator]:
    mechanisms = available()
    if not mechanisms:
        pytest.skip("NO ISOLATION on this host: the services' emulator has nothing to run code in")
    limits = Limits(output=32 * MIB, flood=64 * MIB)
    with SandboxEmulator(lambda: LocalSandbox(mechanisms[0], limits=limits), key=KEY) as running:
        yield running


def fusion_of(emulator: SandboxEmulator) -> FusionSandbox:
    return FusionSandbox(emulator.environment["SANDBOX_FUSION_ENDPOINT"])


def e2b_of(emulator: SandboxEmulator, key: str = KEY) -> E2bSandbox:
    named = emulator.environment
    return E2bSandbox(E2bAccess(key, named["E2B_API_URL"], named["E2B_SANDBOX_URL"]))


def made(emulator: SandboxEmulator, name: str) -> FusionSandbox | E2bSandbox:
    return fusion_of(emulator) if name == "fusion" else e2b_of(emulator)


def asked(emulator: SandboxEmulator) -> list[tuple[str, int]]:
    return [(request.what, request.status) for request in emulator.requests]


@pytest.mark.parametrize("name", ["fusion", "e2b"])
async def test_a_cell_is_shown_as_it_is_here(emulator: SandboxEmulator, name: str) -> None:
    sandbox = made(emulator, name)
    code = "import os, sys\nprint('hi')\nprint('careful', file=sys.stderr)\nos.mkdir('a')\n"
    result = await sandbox.execute(code + "n = open('a/b.txt', 'w').write('x')\n6 * 7", 10)
    assert (result.stdout, result.stderr, result.value_repr, result.error) == ("hi\n", "careful\n", "42", None)
    assert result.files == (WorkFile("a/b.txt", 1, b"x"),)
    failed = await sandbox.execute("print('before')\ndef f(): 1 / 0\nf()", 10)
    assert failed.stdout == "before\n"
    assert failed.error is not None and failed.error.endswith("ZeroDivisionError: division by zero")
    assert next(line for line in failed.error.splitlines() if "File" in line).endswith("in <module>")
    assert "inside_cells" not in failed.error and "driver" not in failed.error
    kept = await sandbox.execute(UNSENT, 10)
    assert kept.value_repr == "b'x'"
    state = await sandbox.execute("'f' in dir()", 10)
    assert state.value_repr == str(sandbox.keeps_state)
    assert not (kept.fresh or kept.state_lost or state.fresh)
    assert isolation(sandbox).startswith("remote: ")
    await sandbox.aclose()


async def test_the_model_is_told_whether_state_is_kept(emulator: SandboxEmulator) -> None:
    assert "Each call starts anew" in PythonTool(fusion_of(emulator)).description
    assert "stay for later calls" in PythonTool(e2b_of(emulator)).description


async def test_fusion_ends_with_its_script(emulator: SandboxEmulator) -> None:
    sandbox = fusion_of(emulator)
    ended = await sandbox.execute("import os\nprint('said', flush=True)\nos._exit(3)", 10)
    assert (ended.stdout, ended.error) == ("said\n", "the interpreter ended: exit code 3")
    slow = await sandbox.execute("print('half', flush=True)\nwhile True: pass", 0.3)
    assert slow.timed_out and slow.stdout == "half\n" and "0.3 s" in (slow.error or "")
    await sandbox.aclose()


async def test_e2b_partial_output_survives_and_the_machine_goes(emulator: SandboxEmulator) -> None:
    sandbox = e2b_of(emulator)
    await sandbox.start()
    half = b'{"type": "stdout", "text": "half\\n", "timestamp": "2026-01-01T00:00:00Z"}\n{"type": "stdo'
    emulator.faults["execute"] = Fault(body=half, hang=True)
    slow = await sandbox.execute("while True: pass", 0.3)
    assert slow.timed_out and slow.state_lost and slow.stdout == "half\n"
    assert emulator.machines == {}
    again = await sandbox.execute("1 + 1", 10)
    assert (again.value_repr, again.fresh) == ("2", False)
    await sandbox.aclose()
    assert asked(emulator)[-1] == ("end", 204)


async def test_e2b_a_machine_that_is_gone_is_told(emulator: SandboxEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = e2b_of(emulator)
    await sandbox.execute("x = 1", 10)
    emulator.wait(emulator.machines.popitem()[1].aclose())
    gone = await sandbox.execute("x", 10)
    assert gone.state_lost and "gone" in (gone.error or "")
    assert (await sandbox.execute("'x' in dir()", 10)).value_repr == "False"
    emulator.wait(emulator.machines.popitem()[1].aclose())
    monkeypatch.setattr(e2b, "RENEW_S", 0)  # the renewal finds out
    assert (await sandbox.execute("1", 10)).fresh
    await sandbox.aclose()


HTML = b"<html><body>Bad Gateway</body></html>"
HOSTILE = {
    "html": (Fault(body=HTML, kind="text/html"), "not its answer"),
    "html and an error": (Fault(502, HTML, "text/html"), "HTTP 502"),
    "500": (Fault(500, b'{"detail": "boom"}'), "HTTP 500"),
    "429": (Fault(429), "wait before the next one"),
    "401": (Fault(401, b"{}"), "refuses the key"),
    "a redirect": (Fault(302), "HTTP 302"),
    "cut": (Fault(body=b'{"status": "Succ', cut=True), "broke off"),
    "half": (Fault(body=b'{"status": "Succ\n'), "not its answer"),
    "another shape": (Fault(body=b'[1, "x"]\n'), "not its answer"),
    "not text": (Fault(body=b"\xff\xfe\x00\n"), "not its answer"),
    "nested": (Fault(body=b"[" * 100_000 + b"\n"), "not its answer"),
    "huge": (Fault(body=b'"' + b"x" * (17 * MIB) + b'"'), "MiB"),
}


@pytest.mark.parametrize("service", ["fusion", "e2b"])
@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_answers_are_failures_by_name(emulator: SandboxEmulator, service: str, kind: str) -> None:
    sandbox = made(emulator, service)
    await sandbox.execute("x = 1", 10)
    fault, says = HOSTILE[kind]
    emulator.faults["run_code" if service == "fusion" else "execute"] = fault
    if service == "e2b" and kind == "huge":
        says = "too long"
    with pytest.raises(SandboxFault, match=says) as raised:
        await sandbox.execute("1", 10)
    assert KEY not in str(raised.value) and len(str(raised.value)) < 500
    after = await sandbox.execute("1", 10)
    assert after.value_repr == "1"
    assert after.fresh == (service == "e2b")  # whether it ran is not known: its machine was ended
    await sandbox.aclose()
    assert emulator.machines == {}


@pytest.mark.parametrize("what", ["create", "renew"])
async def test_e2b_whose_control_answers_nonsense(
    emulator: SandboxEmulator, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e2b, "RENEW_S", 0)
    sandbox = e2b_of(emulator)
    if what == "renew":
        await sandbox.execute("1", 10)
    repeated = Fault(500, f"bad key {KEY}".encode(), "text/plain")
    for fault in (Fault(500, HTML, "text/html"), Fault(503), Fault(body=b"x", cut=True), repeated):
        emulator.faults[what] = fault
        with pytest.raises(SandboxFault) as raised:
            await sandbox.execute("1", 10)
        assert KEY not in str(raised.value)
    if what == "create":
        for name in ("../x", "a.evil.test/", "", "x" * 500):
            emulator.faults[what] = Fault(201, json.dumps({"sandboxID": name}).encode())
            with pytest.raises(SandboxFault, match="name"):
                await sandbox.execute("1", 10)
    assert (await sandbox.execute("1", 10)).value_repr == "1"
    await sandbox.aclose()


async def test_a_slow_server_is_a_timeout(emulator: SandboxEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "MARGIN_S", 0.1)
    emulator.faults["run_code"] = Fault(hang=True)
    sandbox = fusion_of(emulator)
    result = await sandbox.execute("1", 0.2)
    assert result.timed_out and not result.state_lost
    await sandbox.aclose()


async def test_nobody_there() -> None:
    for sandbox in (FusionSandbox("http://127.0.0.1:9"), E2bSandbox(E2bAccess(KEY, "http://127.0.0.1:9"))):
        with pytest.raises(SandboxFault, match="cannot be reached"):
            await sandbox.execute("1", 5)
        await sandbox.aclose()
    with pytest.raises(SandboxFault, match="http"):
        FusionSandbox("ftp://x")
    assert KEY not in repr(E2bAccess(KEY))


async def test_a_wrong_key_is_an_observation(emulator: SandboxEmulator) -> None:
    toolset = Toolset([PythonTool(e2b_of(emulator, "e2b_wrong"))])
    [observation] = await toolset.run([ToolCall("s1.0", "python", {"code": "1"})], step=1)
    assert isinstance(observation, Observation)
    assert observation.error == "execution" and "refuses the key" in observation.text
    assert "e2b_wrong" not in observation.text
    await toolset.aclose()


async def test_the_emulator_refuses_what_it_does_not_know(emulator: SandboxEmulator) -> None:
    from tools.python.service import Service

    service = Service("it", emulator.url)
    for path, body, says in (
        ("/fusion/run_code", {"code": "1"}, "language"),
        ("/fusion/run_code", {"code": 1, "language": "python"}, "code has a wrong type"),
        ("/fusion/run_code", {"code": "1", "language": "python", "tiemout": 3}, "unknown field tiemout"),
        ("/machine/execute", {"code": "1"}, "404"),
        ("/e2b/v2/sandboxes", {"templateID": "x"}, "key"),
    ):
        with pytest.raises(SandboxFault, match=says):
            await service.ask("POST", path, body)
    await service.aclose()
