"""One worker process on the host's side: its pipes, its channel, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tools.python.base import MIB, Limits
from tools.python.tree import OVERFULL, descendants, end, prefer_killing, resident_bytes

MAX_REPLY = 16 * MIB
"""A reply brings files along (`inside_cells.MAX_HANDED`, in base64)."""
WATCH_S = 0.1
Watch: TypeAlias = Callable[[list[int]], str]
KILL_S = 5.0


class WorkerEnded(Exception):
    """The worker ended, or was ended, before it replied. The message says why."""


class Capture:
    """Keeps the head and the tail of a stream of bytes, ``limit`` in all."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def take(self) -> str:
        """What was kept, as text; empties it."""
        tail = bytes(self._tail[-self._half :])
        dropped = self.total - len(self._head) - len(tail)
        marker = f"\n[… {dropped} bytes left out]\n".encode() if dropped else b""
        text = (bytes(self._head) + marker + tail).decode("utf-8", "replace")
        self._head.clear()
        self._tail.clear()
        self.total = 0
        return text


class Worker:
    """A running sandbox process. Everything it sends is untrusted. ``watch`` is told the process ids while a call runs
    and says what ends it; it is called in a thread."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        channel: socket.socket,
        out: int,
        err: int,
        limits: Limits,
        watch: Watch | None = None,
    ) -> None:
        self._process = process
        self._channel = channel
        self._limits = limits
        self._watch = watch
        self._buffer = bytearray()
        self._reply: asyncio.Future[bytes] | None = None
        self._ended: str | None = None
        self._loop = asyncio.get_running_loop()
        self.stdout, self.stderr = Capture(limits.output), Capture(limits.output)
        self._pipes = {out: self.stdout, err: self.stderr}
        for fd, capture in self._pipes.items():
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._read_pipe, fd, capture)
        self._loop.add_reader(channel, self._read_channel)

    @classmethod
    async def spawn(
        cls,
        command: Callable[[int], Sequence[str]],
        env: Mapping[str, str],
        limits: Limits,
        watch: Watch | None = None,
    ) -> Worker:
        """``command``: the command line, given the number of the inherited socket. Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        out, out_write = os.pipe()
        err, err_write = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                pass_fds=(theirs.fileno(),),
                env=dict(env),
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(out)
            os.close(err)
            raise
        finally:
            theirs.close()
            os.close(out_write)
            os.close(err_write)
        return cls(process, ours, out, err, limits, watch)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._ended is None and self._process.returncode is None

    async def ask(self, message: bytes | None) -> bytes:
        """Send a line (None: send nothing) and wait for the line that answers. Raises WorkerEnded."""
        if self._ended is not None:
            raise WorkerEnded(self._ended)
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._reply = reply
        try:
            if message is not None:
                self._buffer.clear()  # what the code wrote to our channel by itself
                await self._loop.sock_sendall(self._channel, message)
            while not (await asyncio.wait({reply}, timeout=WATCH_S))[0]:
                await self._check_use()
            line = reply.result()
            if self._watch is not None and message is not None:
                await self._check_use()  # what was too quick to be seen
        except (OSError, EOFError):
            raise WorkerEnded(await self._how()) from None
        finally:
            self._reply = None
        self.drain()
        return line

    async def _check_use(self) -> None:
        pids = descendants(self.pid)
        if resident_bytes(pids) > 2 * self._limits.memory:
            raise WorkerEnded("all processes together used too much memory")
        if self._watch is not None and (why := await asyncio.to_thread(self._watch, pids)):
            raise WorkerEnded(why)

    def spare_others(self) -> None:
        """Mark the processes as the first to go when memory runs out."""
        prefer_killing(descendants(self.pid))

    def drain(self) -> None:
        """Read what is already in the pipes (a background process may go on writing: bounded)."""
        for fd, capture in self._pipes.items():
            for _ in range(32):
                if not self._read_pipe(fd, capture):
                    break

    async def kill(self) -> None:
        """End every process of the sandbox and free what belongs to it. The last call to a worker."""
        self._fail("it was ended")
        self._loop.remove_reader(self._channel)
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # the first process inside waits for this
        self._channel.close()
        try:
            # the outer process ends only after the namespace is empty
            async with asyncio.timeout(KILL_S):
                await self._process.wait()
        except TimeoutError:
            end(descendants(self.pid))  # before the one that keeps them together
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self.drain()
            for fd in self._pipes:
                self._loop.remove_reader(fd)
                os.close(fd)
            self._pipes = {}
        await self._process.wait()

    async def _how(self) -> str:
        """How the process ended."""
        try:
            async with asyncio.timeout(KILL_S):
                code = await self._process.wait()
        except TimeoutError:
            return "it closed its channel"
        self.drain()
        if code == OVERFULL:
            return "the working folder holds too much"
        return f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"

    def _fail(self, why: str) -> None:
        self._ended = self._ended or why
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(WorkerEnded(why))

    def _read_pipe(self, fd: int, capture: Capture) -> bool:
        try:
            data = os.read(fd, 1 << 16)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self._loop.remove_reader(fd)
            return False
        capture.feed(data)
        if capture.total > self._limits.flood:
            self._loop.remove_reader(fd)
            self._fail(f"more than {self._limits.flood // MIB} MiB of output in one call")
            return False
        return True

    def _read_channel(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._channel)
            if self._reply is None:
                self._fail("it ended between calls")
            elif not self._reply.done():
                self._reply.set_exception(EOFError())
            return
        looked_at = len(self._buffer)
        self._buffer += data
        end_of_line = self._buffer.find(b"\n", looked_at)
        if end_of_line >= 0 and self._reply is not None and not self._reply.done():
            self._reply.set_result(bytes(self._buffer[:end_of_line]))
            del self._buffer[: end_of_line + 1]
        elif len(self._buffer) > MAX_REPLY:
            self._loop.remove_reader(self._channel)
            self._fail("its reply was too long")
