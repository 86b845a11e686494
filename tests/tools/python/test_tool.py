from __future__ import annotations

import asyncio

import pytest

from memory.records import Observation, ToolCall
from tests.tools.python.conftest import Make
from tools.python.base import Level, Limits, PythonResult, SandboxFault
from tools.python.local import LocalSandbox
from tools.python.mechanisms import Mechanism
from tools.python.tool import PythonTool
from tools.toolset import Toolset


async def python(toolset: Toolset, code: str) -> Observation:
    [observation] = await toolset.run([ToolCall("s1.0", "python", {"code": code})], step=1)
    return observation


async def test_shows_output_then_value(sandbox: LocalSandbox) -> None:
    toolset = Toolset([PythonTool(sandbox)])
    assert (await python(toolset, "x = 6\nprint('hi')\nx * 7")).text == "hi\n=> 42"
    assert (await python(toolset, "```python\nx\n```")).text == "=> 6"
    assert (await python(toolset, "y = 1")).text == "[no output]"
    warned = await python(toolset, "import sys\nprint('careful', file=sys.stderr)\nopen('plot.png', 'w').close()")
    assert warned.text == "stderr:\ncareful\nfiles: plot.png"
    await toolset.aclose()
    assert sandbox.pid is None


async def test_an_error_is_an_observation(sandbox: LocalSandbox) -> None:
    observation = await python(Toolset([PythonTool(sandbox)]), "print('so far')\n1/0")
    assert observation.error == "execution"
    assert observation.text.startswith("so far\nTraceback")
    assert observation.text.endswith("ZeroDivisionError: division by zero")
    assert "gone" not in observation.text


async def test_a_timeout_says_that_state_is_gone(sandbox: LocalSandbox) -> None:
    observation = await python(Toolset([PythonTool(sandbox, timeout_s=0.5)]), "print('part')\nwhile True: pass")
    assert observation.error == "timeout"
    assert observation.text.splitlines() == [
        "part",
        "timeout: not finished within 0.5 s",
        "[python was restarted: variables and files of earlier calls are gone]",
    ]


async def test_a_crash_says_that_state_is_gone(sandbox: LocalSandbox) -> None:
    observation = await python(Toolset([PythonTool(sandbox)]), "import os\nos._exit(1)")
    assert observation.error == "execution"
    assert "exit code 1" in observation.text and "gone" in observation.text


async def test_after_a_cancelled_call_the_next_one_says_so(sandbox: LocalSandbox) -> None:
    toolset = Toolset([PythonTool(sandbox)])
    await python(toolset, "x = 1")
    running = asyncio.create_task(python(toolset, "while True: pass"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sandbox.pid is None
    assert (await python(toolset, "1")).text.startswith("[python was restarted before this call")
    assert (await python(toolset, "1")).text == "=> 1"


async def test_an_error_survives_the_cap(make: Make) -> None:
    tool = PythonTool(make(Limits(output=100_000)), max_chars=3000)
    observation = await python(Toolset([tool]), "print('x' * 90_000)\nraise ValueError('y' * 50_000 + 'end')")
    assert len(observation.text) < 3300
    assert observation.text.endswith("end")


async def test_what_the_code_prints_is_made_storable(sandbox: LocalSandbox) -> None:
    code = "import sys\nsys.stdout.buffer.write(b'\\x00\\xff\\x1b[31m')\nsys.stdout.flush()\n'\\ud800<|endoftext|>'"
    assert (await python(Toolset([PythonTool(sandbox)]), code)).text == "␀\ufffd␛[31m\n=> '\\ud800< |endoftext|>'"


class Gone:
    level: Level | None = 3
    name = "gone"
    keeps_state = True

    async def start(self) -> None:
        raise SandboxFault("no namespaces left")

    async def execute(self, code: str, timeout_s: float) -> PythonResult:
        raise SandboxFault("no namespaces left")

    async def aclose(self) -> None:
        return None


async def test_a_sandbox_that_cannot_start_is_an_observation() -> None:
    observation = await python(Toolset([PythonTool(Gone())]), "1")
    assert observation.error == "execution"
    assert "no namespaces left" in observation.text


async def test_a_real_one_that_cannot_start_too() -> None:
    missing = LocalSandbox(Mechanism("missing", True, lambda *_: ["/nonexistent/program"]))
    observation = await python(Toolset([PythonTool(missing)]), "1")
    assert observation.error == "execution"
    assert "missing" in observation.text
