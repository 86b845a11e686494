"""Part of what runs inside the sandbox: cells in one namespace, and the files they leave. Standard library only.

It also runs on other machines, alone, where their own isolation holds (`tools.python.driver`).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import linecache
import os
import resource
import sys
import traceback
import types
from pathlib import Path
from typing import Any

REPORT_ROOM = 64 << 20
MAX_TEXT = 20_000
MAX_FILES = 50
MAX_LOOKED_AT = 2_000
MAX_FILE, MAX_HANDED = 4 << 20, 8 << 20
"""Bytes of one file, and of all files of a call together, that are handed out."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
PARSE: int = ast.PyCF_ONLY_AST


class Cells:
    """Runs cells in one namespace. ``memory`` None: no limit is ours to keep."""

    def __init__(self, workspace: str, memory: int | None) -> None:
        self.module = types.ModuleType("__main__")
        self.count = 0
        self.pid = os.getpid()
        self.workspace = workspace
        self.memory = memory

    def run(self, code: str) -> dict[str, object]:
        self.count += 1
        before = self.files()
        value = error = None
        try:
            result = self.evaluate(code, f"<cell {self.count}>")
            if result is not None:
                self.module.__dict__["_"] = result
                value = clipped(repr(result))
        except BaseException as raised:  # noqa: BLE001 - the code is anyone's, and so is what it raises
            self.allow(REPORT_ROOM)  # what was out of memory gets a little more to say so
            error = clipped(report(raised))
            del raised
        if os.getpid() != self.pid:
            os._exit(0)  # a fork that the code let run on: there is one worker
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):  # the code may have replaced it
                stream.flush()
        self.allow(REPORT_ROOM)
        changed = sorted(name for name, stamp in self.files().items() if before.get(name) != stamp)
        return {"value": value, "error": error, "files": self.handed(changed[:MAX_FILES])}

    def allow(self, more: int) -> None:
        """``more`` memory than the limit; 0: the limit."""
        if self.memory is not None:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_AS, (self.memory + more, self.memory + REPORT_ROOM))

    def evaluate(self, code: str, name: str) -> object:
        """The value of the last expression, None without one."""
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree: ast.Module = compile(code, name, "exec", PARSE, dont_inherit=True)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        scope = self.module.__dict__
        exec(compile(tree, name, "exec", dont_inherit=True), scope)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), scope)

    def files(self) -> dict[str, tuple[int, int]]:
        """Regular files of the workspace, by relative name: time of change and size. No link is followed."""
        found: dict[str, tuple[int, int]] = {}
        folders, looked_at = [""], 0
        while folders and looked_at < MAX_LOOKED_AT:
            folder = folders.pop()
            with contextlib.suppress(OSError), os.scandir(Path(self.workspace, folder)) as entries:
                for entry in entries:
                    looked_at += 1
                    name = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{name}/")
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found[name] = (status.st_mtime_ns, status.st_size)
                    if looked_at >= MAX_LOOKED_AT:
                        break
        return found

    def handed(self, names: list[str]) -> list[dict[str, Any]]:
        """Name, size and content (base64; None where it is too much, or unreadable)."""
        out, left = [], MAX_HANDED
        for name in names:
            data = size = None
            with contextlib.suppress(OSError, MemoryError):
                fd = os.open(Path(self.workspace, name), os.O_RDONLY | NO_FOLLOW)
                with os.fdopen(fd, "rb") as file:
                    size = os.fstat(fd).st_size
                    if size <= min(left, MAX_FILE):
                        raw = file.read(size)
                        data, left = base64.b64encode(raw).decode("ascii"), left - len(raw)
            out.append({"name": whole(name), "size": size or 0, "data": data})
        return out


def whole(text: str) -> str:
    """Without lone surrogates, which no reader of JSON need take."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clipped(text: str) -> str:
    text = whole(text)
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 2]}\n[… {len(text) - MAX_TEXT} characters left out]\n{text[-MAX_TEXT // 2 :]}"


def report(error: BaseException) -> str:
    """A traceback of the user's own frames, and of the one that raised."""
    trace = traceback.TracebackException.from_exception(error, limit=-50)
    pending: list[traceback.TracebackException | None] = [trace]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        frames = [frame for frame in one.stack if frame.filename != "<string>"]
        cells = [frame for frame in frames[:-1] if frame.filename.startswith("<cell ")]
        one.stack = traceback.StackSummary.from_list([*cells, *frames[-1:]])
        pending += [one.__cause__, one.__context__]
    header = "Traceback (most recent call last):\n"
    text = "".join(trace.format())
    return (text if trace.stack else text.removeprefix(header)).rstrip()
