from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.load import slack
from tests.tools.python.conftest import Make
from tools.python.base import MIB, Limits, SandboxFault, WorkFile
from tools.python.local import LocalSandbox, detect_sandbox
from tools.python.mechanisms import UNCONFINED, Mechanism, available
from tools.python.tree import descendants

WRITE_TO_CHANNEL = """
import os
for fd in range(3, 1024):
    try:
        {}
    except OSError:
        pass
"""
BUSY = "import os, time\nif os.fork() == 0: time.sleep(600)\nwhile True: pass"
"""Runs for ever, and shows by a third process that it has begun."""
REPOSITORY = Path(__file__).resolve().parents[3]


def alive(pid: int) -> bool:
    """Zombies, which nobody may be there to reap, are dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(state: Callable[[], bool], limit_s: float = 10.0) -> None:
    async with asyncio.timeout(limit_s):
        while not state():  # noqa: ASYNC110 - nothing tells when /proc changes
            await asyncio.sleep(0.01)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def processes(sandbox: LocalSandbox) -> list[int]:
    assert sandbox.pid is not None
    return [sandbox.pid, *descendants(sandbox.pid)]


async def test_state_is_kept_and_the_last_expression_echoed(sandbox: LocalSandbox) -> None:
    first = await sandbox.execute("import math\nx = 41\nprint('hi')\nx + 1", 5)
    assert (first.stdout, first.value_repr, first.error) == ("hi\n", "42", None)
    assert (await sandbox.execute("x", 5)).value_repr == "41"
    assert (await sandbox.execute("_ + math.floor(1.5)", 5)).value_repr == "42"
    assert (await sandbox.execute("y = 1", 5)).value_repr is None
    assert (await sandbox.execute("None", 5)).value_repr is None
    assert (await sandbox.execute("", 5)).error is None


async def test_numpy_is_there_and_the_repository_is_not(sandbox: LocalSandbox) -> None:
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        pytest.skip("numpy is not installed")
    if sandbox.mechanism.level < 3 and not all(folder.stat().st_mode & 0o001 for folder in Path(spec.origin).parents):
        pytest.skip("numpy is where no other user can reach it, so the worker's user cannot")
    result = await sandbox.execute("import numpy as np\nfloat(np.linalg.norm(np.ones((3, 3)) @ np.ones(3)) ** 2)", 20)
    assert float(result.value_repr or 0) == pytest.approx(27)
    paths = await sandbox.execute("import sys\n[p for p in sys.path if p != '/packages']", 5)
    assert str(REPOSITORY) not in (paths.value_repr or "")
    assert "site-packages" not in (paths.value_repr or "")


async def test_an_error_is_trimmed_to_the_user_s_code(sandbox: LocalSandbox) -> None:
    result = await sandbox.execute("def f(n):\n    return 1 / n\nprint('before')\nf(0)", 5)
    assert result.stdout == "before\n"
    assert result.error is not None
    assert result.error.splitlines()[0] == "Traceback (most recent call last):"
    assert [line.strip() for line in result.error.splitlines() if "File" in line] == [
        'File "<cell 1>", line 4, in <module>',
        'File "<cell 1>", line 2, in f',
    ]
    assert "return 1 / n" in result.error
    assert result.error.endswith("ZeroDivisionError: division by zero")
    assert not result.state_lost
    assert (await sandbox.execute("f(1)", 5)).value_repr == "1.0"


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("a b", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("input()", "EOFError: EOF when reading a line"),
        ("class Bad:\n    def __repr__(self): raise ValueError('no repr')\nBad()", "ValueError: no repr"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("'\\ud800'.encode()", "UnicodeEncodeError: 'utf-8' codec can't encode character"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("x = 'a\x00b'", "source code string cannot contain null bytes"),
        ("import sys\nsys.stdout = None\nsys.stderr = 7\n1/0", "ZeroDivisionError: division by zero"),
    ],
)
async def test_what_code_raises_is_its_error_and_the_worker_lives(sandbox: LocalSandbox, code: str, last: str) -> None:
    await sandbox.execute("kept = 1", 5)
    result = await sandbox.execute(code, 5)
    assert result.error is not None and last in result.error.splitlines()[-1]
    assert "inside" not in result.error and 'File "<string>"' not in result.error
    assert (await sandbox.execute("kept", 5)).value_repr == "1"


async def test_timeout_keeps_partial_output_and_kills(sandbox: LocalSandbox) -> None:
    await sandbox.start()
    pids = processes(sandbox)
    begun = time.monotonic()
    result = await sandbox.execute("print('half', end='', flush=False)\nwhile True: pass", 1)
    assert time.monotonic() - begun < 1 + slack()
    assert result.timed_out and result.state_lost
    assert result.stdout == "half"
    assert result.error is not None and "1 s" in result.error
    assert not [pid for pid in pids if alive(pid)]
    after = await sandbox.execute("'half' in dir()", 5)
    assert (after.value_repr, after.fresh) == ("False", False)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import os\nos._exit(7)", "exit code 7"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
        ("import ctypes\nctypes.string_at(0)", "killed by signal 11"),
        ("import os\nos.closerange(3, 1024)", "exit code"),
        (
            WRITE_TO_CHANNEL.format("os.write(fd, b'nonsense\\n')"),
            "no sense",
        ),
        (
            WRITE_TO_CHANNEL.format("while True: os.write(fd, b'x' * 65536)"),
            "too long",
        ),
    ],
)
async def test_a_crash_is_told_and_a_fresh_worker_follows(sandbox: LocalSandbox, code: str, how: str) -> None:
    result = await sandbox.execute("print('said')\n" + code, 10)
    assert result.error is not None and how in result.error
    assert result.state_lost and not result.timed_out
    assert result.stdout == "said\n"
    assert (await sandbox.execute("1 + 1", 5)).value_repr == "2"


async def test_a_fork_that_runs_on_does_not_answer_twice(sandbox: LocalSandbox) -> None:
    assert (await sandbox.execute("import os\nos.fork() and 0", 5)).value_repr == "0"
    for number in range(5):
        assert (await sandbox.execute(f"{number}", 5)).value_repr == str(number)


async def test_output_is_capped_at_both_ends(make: Make) -> None:
    sandbox = make(Limits(output=1000))
    result = await sandbox.execute("print('first'); print('x' * 1_000_000); print('last')\n'y' * 10**6", 10)
    assert result.stdout.startswith("first") and result.stdout.endswith("last\n")
    assert len(result.stdout) < 1100 and "bytes left out" in result.stdout
    assert result.value_repr is not None and len(result.value_repr) < 20_100
    assert not result.state_lost


async def test_files_made_or_changed_are_handed_out(sandbox: LocalSandbox) -> None:
    made = await sandbox.execute("n = open('b.txt', 'w').write('x')\nopen('a.txt', 'w').close()", 5)
    assert made.files == (WorkFile("a.txt", 0, b""), WorkFile("b.txt", 1, b"x"))
    changed = await sandbox.execute("open('b.txt', 'a').write('y'); None", 5)
    assert changed.files == (WorkFile("b.txt", 2, b"xy"),)
    assert (await sandbox.execute("open('b.txt').read()", 5)).value_repr == "'xy'"


@pytest.mark.nightly  # a second and a half
async def test_fork_bomb_is_contained(make: Make) -> None:
    sandbox = make(Limits(processes=16))
    await sandbox.start()
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    running = asyncio.create_task(sandbox.execute(code, 2))
    await until(lambda: len(processes(sandbox)) > 10)
    pids = processes(sandbox)
    assert len(pids) <= 16 + 2
    result = await running
    assert result.timed_out
    assert not [pid for pid in pids if alive(pid)]
    assert (await sandbox.execute("1", 5)).value_repr == "1"


async def test_memory_of_one_process_is_capped(make: Make) -> None:
    sandbox = make(Limits(memory=256 * MIB))
    result = await sandbox.execute("hog = []\nwhile True: hog.append(bytearray(1 << 20))", 20)
    assert result.error is not None and result.error.endswith("MemoryError")
    assert (await sandbox.execute("100 < len(hog) < 256", 5)).value_repr == "True"


async def test_children_are_gone_after_closing(sandbox: LocalSandbox) -> None:
    code = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(1)
        os._exit(0)
"""
    await sandbox.execute(code, 5)
    pids = processes(sandbox)
    assert len(pids) >= 5
    await sandbox.aclose()
    assert not [pid for pid in pids if alive(pid)]
    assert sandbox.pid is None
    await sandbox.aclose()


async def test_cancelling_kills_and_the_next_call_says_that_state_is_gone(sandbox: LocalSandbox) -> None:
    await sandbox.execute("x = 1", 5)
    idle = len(processes(sandbox))
    running = asyncio.create_task(sandbox.execute(BUSY, 60))
    await until(lambda: len(processes(sandbox)) > idle)
    pids = processes(sandbox)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not [pid for pid in pids if alive(pid)]
    after = await sandbox.execute("'x' in dir()", 5)
    assert (after.value_repr, after.fresh) == ("False", True)
    assert not (await sandbox.execute("1", 5)).fresh


async def test_closing_ends_a_running_call(sandbox: LocalSandbox) -> None:
    await sandbox.start()
    idle = len(processes(sandbox))
    running = asyncio.create_task(sandbox.execute(BUSY, 60))
    await until(lambda: len(processes(sandbox)) > idle)
    await sandbox.aclose()
    result = await running
    assert result.state_lost and result.error is not None


async def test_a_worker_that_dies_between_calls_is_replaced(sandbox: LocalSandbox) -> None:
    await sandbox.execute("x = 1", 5)
    pids = processes(sandbox)
    os.kill(pids[-1], signal.SIGKILL)
    await until(lambda: not [pid for pid in pids if alive(pid)])
    after = await sandbox.execute("1", 5)
    assert after.state_lost or (after.fresh and after.value_repr == "1")
    assert (await sandbox.execute("2", 5)).value_repr == "2"


async def test_it_dies_with_its_host(mechanism: Mechanism) -> None:
    script = f"""
import asyncio
from tools.python.local import LocalSandbox
from tools.python.mechanisms import available
from tools.python.tree import descendants
async def main():
    sandbox = LocalSandbox(next(m for m in available() if m.name == {mechanism.name!r}))
    await sandbox.start()
    print(sandbox.pid, *descendants(sandbox.pid), flush=True)
    await sandbox.execute("while True: pass", 600)
asyncio.run(main())
"""
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    pids = [int(pid) for pid in (await host.stdout.readline()).split()]
    assert len(pids) >= 2 and all(alive(pid) for pid in pids)
    host.kill()
    await host.wait()
    await until(lambda: not [pid for pid in pids if alive(pid)], 5)


async def test_calls_take_turns(sandbox: LocalSandbox) -> None:
    results = await asyncio.gather(*(sandbox.execute(f"print({n})\n{n}", 10) for n in range(5)))
    assert [(r.stdout, r.value_repr) for r in results] == [(f"{n}\n", str(n)) for n in range(5)]


async def test_descriptors_and_tasks_are_flat(sandbox: LocalSandbox) -> None:
    await sandbox.start()
    await sandbox.aclose()
    before = (open_files(), len(asyncio.all_tasks()))
    for _ in range(5):
        await sandbox.execute("1", 5)
        await sandbox.aclose()
    assert (open_files(), len(asyncio.all_tasks())) == before


async def test_closing_is_prompt(sandbox: LocalSandbox) -> None:
    """What ends the others must not count as one that is left."""
    took = []
    for _ in range(5):
        await sandbox.execute("1", 5)
        begun = time.monotonic()
        await sandbox.aclose()
        took.append(time.monotonic() - begun)
    assert sorted(took)[2] < 0.5 * slack()


async def test_two_sandboxes_do_not_see_each_other(make: Make) -> None:
    one, two = make(), make()
    await one.execute("open('secret', 'w').close()", 5)
    assert (await two.execute("import os\nos.listdir('.')", 5)).value_repr == "[]"


async def test_detects_the_best_that_works_and_leaves_nothing_running() -> None:
    if not available():
        pytest.skip("NO ISOLATION on this host: the sandbox goes untested")
    sandbox = await detect_sandbox()
    assert sandbox is not None
    assert sandbox.pid is None
    assert (sandbox.level, sandbox.name) == (3, available()[0].name)
    assert not (await sandbox.execute("1", 5)).fresh
    await sandbox.aclose()


async def test_without_a_mechanism_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.python.mechanisms.kernel_abi", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert available() == ()
    assert await detect_sandbox() is None


@pytest.mark.parametrize("missing", ["--net", "--pid", "--ipc", "--uts"])
async def test_isolation_that_does_not_hold_is_refused(missing: str) -> None:
    """Take one namespace away: the start must notice."""
    real = next((one for one in available() if one.name == "namespaces"), None)
    if real is None:
        pytest.skip("NO ISOLATION by namespaces on this host")
    wrap = real.wrap
    weak = Mechanism("weak", False, lambda *given: [part for part in wrap(*given) if part != missing])
    with pytest.raises(SandboxFault, match="shared"):
        await LocalSandbox(weak).start()


async def test_no_isolation_at_all_is_refused() -> None:
    if not available():
        pytest.skip("NO ISOLATION on this host: the sandbox goes untested")
    with pytest.raises(SandboxFault):
        await LocalSandbox(Mechanism("none", True, lambda *_: ["/usr/bin/env"])).start()


async def test_level_0_has_limits_and_an_end() -> None:
    """No isolation; but still a bare environment, a folder of its own, and an end of every process."""
    sandbox = LocalSandbox(UNCONFINED, limits=Limits(memory=256 * MIB))
    try:
        result = await sandbox.execute("import os\nopen('a', 'w').close()\n(sorted(os.environ), os.getcwd())", 10)
        assert "LONGSTRIDE" not in (result.value_repr or "LONGSTRIDE")
        assert (await sandbox.execute("bytearray(1 << 30)", 5)).error is not None
        code = "import os, time\nif not os.fork():\n    os.setsid()\n    os.fork()\n    time.sleep(600)\n"
        await sandbox.execute(code, 5)
        pids = processes(sandbox)
        late = await sandbox.execute("print('half')\nwhile True: pass", 0.5)
        assert late.timed_out and late.stdout == "half\n"
        await until(lambda: not [pid for pid in pids if alive(pid)])
    finally:
        await sandbox.aclose()
