"""A server as a child process: its pipes, bounded, and its end, which is the end of everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.mcp.config import McpFault, McpServerConfig
from tools.python.worker import Capture

MAX_LINE = 4 << 20
"""Bytes of one message."""
KEPT_STDERR = 2_000
POLITE_S = 1.0
"""For a server to end by itself once its input is closed."""
KILL_S = 6.0
_GUARD = Path(__file__).with_name("guard.py")


class Child:
    """A running server under its guard. Everything it sends is untrusted."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int) -> None:
        self._process = process
        self._lifeline = lifeline
        self._stderr = Capture(KEPT_STDERR)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, config: McpServerConfig, variables: Mapping[str, str]) -> Child:
        """``variables``: the whole environment of the server. Raises McpFault."""
        program = _program(config, variables)
        theirs, ours = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_GUARD), str(theirs), program, *config.args),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs,),
                env=dict(variables),
                cwd=config.cwd or None,
                start_new_session=True,
                limit=MAX_LINE,
            )
        except BaseException as error:
            os.close(ours)
            if isinstance(error, OSError | ValueError):
                raise McpFault(f"{config.command} cannot be started: {error}") from error
            raise
        finally:
            os.close(theirs)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """Of the guard."""
        return self._process.pid

    async def read_line(self) -> bytes:
        """The next line; empty at the end. Raises McpFault for one that is too long."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as error:
            raise McpFault(f"it sent a message of more than {MAX_LINE >> 20} MiB") from error

    async def write_line(self, line: bytes) -> None:
        """Raises OSError when nobody reads any more."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def how_it_ended(self) -> str:
        """Exit code and the end of what it wrote to stderr; to be asked after the end of its output."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLITE_S):
                await self._process.wait()
                await asyncio.wait({self._listening}, timeout=0.2)
        code = self._process.returncode
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        if code is not None and code > 128:
            how = f"it was ended by signal {code - 128}"
        said = " ".join(self._stderr.take().split())[-300:]
        return f"{how} ({said})" if said else how

    async def aclose(self) -> None:
        """Ask the server to end, then see to it. Nothing that it started is left when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        # a process counts as ended only once its pipes were read to their end
        draining = asyncio.create_task(self._drained())
        try:
            await self._ended_within(POLITE_S)
        finally:
            os.close(self._lifeline)
            try:
                await self._ended_within(KILL_S)
            finally:
                if self._process.returncode is None:
                    self._process.kill()
                for task in (draining, self._listening):
                    task.cancel()
        await asyncio.gather(draining, self._listening, return_exceptions=True)

    async def _ended_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()

    async def _drained(self) -> None:
        assert self._process.stdout is not None
        while await self._process.stdout.read(1 << 16):
            pass

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 16):
            self._stderr.feed(data)


def _program(config: McpServerConfig, variables: Mapping[str, str]) -> str:
    """The whole path of the program. Raises McpFault when it, or its working folder, is not there."""
    if os.name != "posix":
        raise McpFault("a server is started on Linux and macOS only", "run it elsewhere, and reach it by its url")
    found = shutil.which(config.command, path=variables.get("PATH"))
    if found is None:
        raise McpFault(f"no such program: {config.command}", "install it, or give its whole path")
    if config.cwd and not Path(config.cwd).is_dir():
        raise McpFault(f"no such folder: {config.cwd}", "it is the server's cwd")
    return str(Path(found).absolute())
