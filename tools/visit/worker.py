"""One warm child process for extraction, killed when a document takes too long and started again when needed."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter

import tools
from memory.records import ErrorKind
from tools.visit.extracted import Extracted, Unreadable

Job: TypeAlias = Literal["html", "crude", "pdf", "xlsx", "xls", "docx", "pptx", "odf", "ipynb"]
_ROOT = str(Path(tools.__file__).resolve().parent.parent)
_START = f"import sys; sys.path.insert(0, {_ROOT!r}); from tools.visit.child import main; main()"
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP")
_MAX_ANSWER = 64_000_000
_START_ALLOWANCE_S = 20.0
"""Added to the limit of the first job of a child: its imports take seconds on a busy machine."""


class _Frame(BaseModel):
    size: int


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    failed: str = ""
    kind: ErrorKind = "parse"
    title: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()
    whole: str = ""


class ExtractionWorker:
    """Runs extraction out of process, one document at a time. Blocking and thread-safe."""

    def __init__(self, limit_s: float = 20.0) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    def extract(self, kind: Job, body: bytes, content_type: str = "", url: str = "") -> Extracted:
        """The document's text. Raises Unreadable when there is none, the limit passed, or the child died."""
        job = {"size": len(body), "kind": kind, "content_type": content_type, "url": url, "limit_s": self._limit_s}
        frame = json.dumps(job).encode() + b"\n" + body
        with self._lock:
            try:
                raw = self._asked(frame)
            except _Late as error:
                self._kill()
                raise Unreadable(f"extraction took longer than {self._limit_s:g} s", "timeout") from error
            except (OSError, EOFError, ValueError) as error:
                self._kill()
                raise Unreadable("the parser crashed on this document") from error
        answer = TypeAdapter(_Answer).validate_json(raw)
        if answer.failed:
            raise Unreadable(answer.failed, answer.kind)
        return Extracted(answer.title, answer.text, answer.notes, answer.whole)

    def close(self) -> None:
        """End the child, if any, also in the middle of a document. The worker cannot be used again."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._lock:
            self._kill()

    @property
    def busy(self) -> bool:
        """Whether a document is being read."""
        return self._lock.locked()

    @property
    def pid(self) -> int | None:
        """The child's process id, None when none runs."""
        child = self._child  # another thread may replace it meanwhile
        return child.pid if child is not None and child.poll() is None else None

    def _asked(self, frame: bytes) -> bytes:
        """The answer of the warm child, or of a new one when there is none, or when it had died by itself."""
        if self._child is not None and self._child.poll() is None:
            try:
                return _exchange(self._child, frame, time.monotonic() + self._limit_s)
            except (OSError, EOFError):
                pass
        if self._closed:
            raise EOFError
        return _exchange(self._start(), frame, time.monotonic() + self._limit_s + _START_ALLOWANCE_S)

    def _start(self) -> subprocess.Popen[bytes]:
        self._kill()
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
        return self._child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


class _Late(Exception):
    """The deadline passed."""


def _exchange(child: subprocess.Popen[bytes], job: bytes, deadline: float) -> bytes:
    """Write a job and read its answer, whichever way the pipe is ready. Raises _Late, EOFError, OSError, ValueError."""
    assert child.stdin is not None
    assert child.stdout is not None
    source, sink = child.stdout, child.stdin
    os.set_blocking(sink.fileno(), False)
    received = bytearray()
    pending = memoryview(job)
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        selector.register(sink, selectors.EVENT_WRITE)
        while True:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _Late
            for key, _ in ready:
                if key.fileobj is sink:
                    pending = pending[_send(sink, pending) :]
                    if not pending:
                        selector.unregister(sink)
                    continue
                part = os.read(source.fileno(), 1 << 20)
                if not part:
                    raise EOFError
                received += part
                answer = _whole(received)
                if answer is not None:
                    return answer


def _send(sink: IO[bytes], pending: memoryview) -> int:
    try:
        return os.write(sink.fileno(), pending[: 1 << 16])
    except BlockingIOError:
        return 0


def _whole(received: bytearray) -> bytes | None:
    """The answer's bytes once all of them are there. Raises ValueError for a broken frame."""
    end = received.find(b"\n")
    if end < 0:
        if len(received) > 100:
            raise ValueError("no frame")
        return None
    size = _Frame.model_validate_json(bytes(received[:end])).size
    if not 0 <= size <= _MAX_ANSWER:
        raise ValueError("frame out of bounds")
    return bytes(received[end + 1 : end + 1 + size]) if len(received) >= end + 1 + size else None
