"""Code that will not end, multiplies, fills, floods and lies: rows F80-F84 and F88 of the fault tables.

Whatever a snippet does, the worker after it works, and no process is left.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.records import ToolCall
from tests.tools.python.conftest import Make
from tests.tools.python.survivors import Watch
from tools.python.base import MIB, Limits, PythonResult
from tools.python.local import LocalSandbox
from tools.python.tool import PythonTool
from tools.toolset import Toolset

LIMIT_S = 0.3
SMALL = Limits(memory=256 * MIB, workspace=8 * MIB, entries=500, processes=16, flood=2 * MIB)


@dataclass(frozen=True)
class Hostile:
    """``ends``: how, of: returns, raises, lost (the worker went), time (its time ran out)."""

    code: str
    ends: str
    says: str = ""


def ending(result: PythonResult) -> str:
    if result.timed_out:
        return "time"
    if result.state_lost:
        return "lost"
    return "raises" if result.error is not None else "returns"


async def run_all(sandbox: LocalSandbox, snippets: dict[str, Hostile]) -> None:
    """Each in a worker of its own, which it may ruin."""
    wrong: dict[str, object] = {}
    watch = Watch(sandbox)
    for name, hostile in snippets.items():
        limit = LIMIT_S if "time" in hostile.ends else 20.0
        for again in (True, True, False):  # a busy machine may be late, but not always
            await sandbox.execute("print('ready')", 20)
            watch.look()
            begun = time.monotonic()
            result = await sandbox.execute("print('said', flush=True)\n" + hostile.code, limit)
            took = time.monotonic() - begun
            watch.look()
            await sandbox.aclose()
            if took <= limit + 1 or not again:
                break
        if not result.stdout.startswith("said"):
            wrong[f"{name}: output"] = result
        if ending(result) not in hostile.ends.split() or hostile.says not in (result.error or ""):
            wrong[f"{name}: ending"] = result
        if took > limit + 1:
            wrong[f"{name}: time"] = took
    assert wrong == {}
    assert await watch.survivors() == []


FORK = "import os, time\n"
F80 = {
    "a loop": Hostile("while True: pass", "time"),
    "sleep": Hostile("import time\ntime.sleep(10**6)", "time"),
    "a loop in C": Hostile("sum(range(10**12))", "time"),
    "a loop in C that holds the lock": Hostile("import re\nre.match('(a+)+b', 'a' * 40)", "time"),
    "signals ignored": Hostile(
        "import signal\n"
        "for n in range(1, 65):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True: pass",
        "time",
    ),
    "signals blocked": Hostile(
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nsignal.pause()", "time"
    ),
    "exceptions swallowed": Hostile("while True:\n    try: input\n    except BaseException: pass", "time"),
    "a program of its own": Hostile("import os, sys\nos.execv(sys.executable, ['p', '-c', 'while 1: 0'])", "time lost"),
    "stopped": Hostile("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "time"),
    "a repr without end": Hostile("class R:\n    def __repr__(self):\n        while True: pass\nR()", "time"),
    "a lock": Hostile("import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", "time"),
    "a wait for a child": Hostile(FORK + "if not os.fork(): time.sleep(999)\nos.wait()", "time"),
}
F81 = {
    "fork bomb": Hostile("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "time lost"),
    "forks and goes on": Hostile("import os\nfor _ in range(3): os.fork()\nos.getpid() and None", "returns"),
    "thread bomb": Hostile(
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "raises time lost",
    ),
    "double fork": Hostile(
        FORK + "if not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(999)\n    os._exit(0)\n",
        "returns",
    ),
    "a daemon that ignores and holds on": Hostile(
        FORK + "import signal\nif not os.fork():\n    os.setsid()\n"
        "    for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "    while True: time.sleep(0.01)\n",
        "returns",
    ),
    "a chain that forks away": Hostile(
        FORK + "if not os.fork():\n    while True:\n        if os.fork(): os._exit(0)\n", "returns lost"
    ),
    "zombies": Hostile(FORK + "for _ in range(10):\n    if not os.fork(): os._exit(0)\n", "returns"),
    "kill all": Hostile("import os\nos.kill(-1, 9)", "lost raises returns"),
    "kill its group": Hostile("import os\nos.killpg(0, 9)", "lost"),
    "kill the parent": Hostile(
        "import os\ntry: os.kill(os.getppid(), 9)\nexcept PermissionError: pass", "returns lost"
    ),
}
F82 = {
    "one process": Hostile("hog = []\nwhile True: hog.append(bytearray(1 << 20))", "raises", "MemoryError"),
    "one allocation": Hostile("bytearray(1 << 34)", "raises", "MemoryError"),
    "many processes": Hostile(
        FORK + "for _ in range(8):\n    if not os.fork():\n        hog = bytearray(120 << 20)\n"
        "        while True: time.sleep(1)\nos.wait()",
        "lost",
        "too much memory",
    ),
    "mapped and shared": Hostile(
        "import mmap\nhold = [mmap.mmap(-1, 1 << 26) for _ in range(99)]\n[m.write(b'x' * (1 << 26)) for m in hold]",
        "raises lost",
    ),
    "depth in C": Hostile("x = []\nfor _ in range(10**6): x = [x]\nrepr(x)", "raises lost"),
    "a huge number": Hostile("10 ** 10 ** 10", "raises time lost", ""),
}
F83 = {
    "no end": Hostile("while True: print('x' * 10_000)", "lost", "of output"),
    "no newline": Hostile("import sys\nwhile True: sys.stdout.write('x' * 10_000)", "lost", "of output"),
    "errors": Hostile("import sys\nwhile True: sys.stderr.write('x' * 10_000)", "lost", "of output"),
    "binary": Hostile("import os\nos.write(1, bytes(range(256)) * 100)\nNone", "returns"),
    "written by a child": Hostile(
        FORK + "if not os.fork():\n    while True: os.write(1, b'x' * 9999)\nos.wait()", "lost"
    ),
    "to every descriptor": Hostile(
        "import os\nfor fd in range(3, 60):\n    try: os.write(fd, b'x' * 99)\n    except OSError: pass\n",
        "lost returns",
    ),
    "a reply without end": Hostile(
        "import os\nfor fd in range(3, 60):\n    try:\n        while True: os.write(fd, b'x' * 65536)\n"
        "    except OSError: pass\n",
        "lost",
        "too long",
    ),
    "stdout closed": Hostile("import os, sys\nsys.stdout.close()\nos.close(1)", "returns raises lost"),
    "a frame of its own": Hostile(
        'import os\nfor fd in range(3, 60):\n    try: os.write(fd, b\'{"call": 1, "value": "forged"}\\n\')\n'
        "    except OSError: pass\n",
        "lost",
        "no sense",
    ),
}
F84 = {
    "one file": Hostile("with open('f', 'wb') as f:\n    while True: f.write(bytes(1 << 20))", "raises lost"),
    "two files": Hostile(
        "for n in 'ab':\n    with open(n, 'wb') as f: f.write(bytes(7 << 20))\n", "raises lost returns"
    ),
    "many files": Hostile("for n in range(10**6): open(f'f{n}', 'w').close()", "raises lost", ""),
    "deep folders": Hostile(
        "import os, time\nfor n in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\ntime.sleep(9)", "raises lost"
    ),
    "unlinked files": Hostile(
        "import os, time\nhold = []\nfor _ in range(40):\n    f = open('f', 'wb')\n    os.unlink('f')\n"
        "    f.write(bytes(1 << 20))\n    f.flush()\n    hold.append(f)\ntime.sleep(9)",
        "raises lost",
    ),
    "a sparse file": Hostile("open('f', 'wb').truncate(1 << 40)", "raises"),
    "links in a circle": Hostile("import os\nfor a, b in ('ab', 'ba', '.c'): os.symlink(a, b)", "returns"),
}
F88 = {
    "a repr that raises": Hostile("class R:\n    def __repr__(self): 1 / 0\nR()", "raises", "ZeroDivisionError"),
    "a repr of a gigabyte": Hostile(
        "class R:\n    def __repr__(self): return 'x' * 10**9\nR()", "raises", "MemoryError"
    ),
    "a repr that is none": Hostile("class R:\n    def __repr__(self): return 1\nR()", "raises", "TypeError"),
    "a repr that lies": Hostile(
        "class S(str):\n    def __len__(self): return -1\n    def __getitem__(self, key): raise SystemExit\n"
        "class R:\n    def __repr__(self): return S('x')\nR()",
        "raises returns",
    ),
    "an error that cannot be told": Hostile(
        "class E(Exception):\n    def __str__(self): raise E2\nclass E2(BaseException): pass\nraise E()", "raises lost"
    ),
    "an exit": Hostile("import os\nos._exit(0)", "lost", "exit code 0"),
    "an abort": Hostile("import os\nos.abort()", "lost", "signal 6"),
    "a segmentation fault": Hostile("import ctypes\nctypes.string_at(0)", "lost", "signal 11"),
    "SystemExit": Hostile("raise SystemExit('x')", "raises", "SystemExit"),
    "an exit hook without end": Hostile("import atexit, time\natexit.register(time.sleep, 999)\nNone", "returns"),
    "the builtins gone": Hostile(
        "import builtins, json\nbuiltins.len = json.dumps = json.loads = None", "lost returns"
    ),
    "the streams gone": Hostile("import sys\nsys.stdout = sys.stderr = sys.stdin = None\n1 / 0", "raises"),
    "the modules gone": Hostile("import sys\nsys.modules.clear()", "returns lost raises"),
    "a pickle that runs": Hostile(
        "import pickle\nclass P:\n    def __reduce__(self): return (eval, ('1/0',))\npickle.loads(pickle.dumps(P()))",
        "raises",
    ),
    "recursion": Hostile("def f(): f()\nf()", "raises", "RecursionError"),
    "every descriptor closed": Hostile("import os\nos.closerange(0, 256)", "lost"),
    "an alarm": Hostile("import signal, time\nsignal.alarm(1)\ntime.sleep(9)", "lost", "signal 14"),
}


@pytest.fixture
def small(make: Make) -> LocalSandbox:
    return make(SMALL)


async def test_f80_code_that_does_not_end(small: LocalSandbox) -> None:
    await run_all(small, F80)


async def test_f81_code_that_multiplies(small: LocalSandbox) -> None:
    await run_all(small, {name: one for name, one in F81.items() if name != "kill all" or small.level})


async def test_f82_code_that_takes_memory(small: LocalSandbox) -> None:
    before = own_memory()
    await run_all(small, F82)
    assert own_memory() - before < 64 * MIB


async def test_f83_code_that_writes_without_end(small: LocalSandbox) -> None:
    before = own_memory()
    await run_all(small, F83)
    assert own_memory() - before < 64 * MIB


@pytest.fixture
def places(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where working folders are made: a folder of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    return open_folder


async def test_f84_code_that_fills_the_disk(small: LocalSandbox, places: Path) -> None:
    await run_all(small, F84)
    assert is_empty(places)


async def test_f88_code_that_returns_what_cannot_be_shown(small: LocalSandbox) -> None:
    await run_all(small, F88)


@pytest.mark.parametrize(
    "code", ["raise ValueError('\\ud800')", "class R:\n    def __repr__(self): return '\\udcff'\nR()"]
)
async def test_f91_lone_surrogates_cost_no_state(sandbox: LocalSandbox, code: str) -> None:
    await sandbox.execute("kept = 1", 5)
    result = await sandbox.execute(code, 5)
    assert "\ufffd" in (result.error or "") + (result.value_repr or "")
    assert (await sandbox.execute("kept", 5)).value_repr == "1"


async def test_f93_what_is_no_json_is_shown(sandbox: LocalSandbox) -> None:
    shown = await sandbox.execute("[float('nan'), float('inf'), {1: 2, None: 3}]", 5)
    assert shown.value_repr == "[nan, inf, {1: 2, None: 3}]"


async def test_f92_what_it_prints_is_made_storable(sandbox: LocalSandbox) -> None:
    toolset = Toolset([PythonTool(sandbox)])
    code = (
        "import sys\nprint('\\ud800'.encode('utf-8', 'surrogatepass'), '\\u202e', '\\x1b[2J', '\\x00')\n"
        "sys.stdout.buffer.write(b'\\xed\\xa0\\x80')\nopen('a\\u202eb\\n.txt', 'w').close()\n'\\udc00'"
    )
    [observation] = await toolset.run([ToolCall("s1.0", "python", {"code": code})], step=1)
    observation.text.encode("utf-8")
    assert not [sign for sign in ("\x00", "\x1b", "\u202e") if sign in observation.text]
    assert observation.error is None
    await toolset.aclose()


def is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def own_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
