"""The child process of the extractive summariser: one JSON line in, one JSON line out, until its input ends.

Run by path (`memory.summaries.process` does it), so that nothing of the parent's main module is imported again. It has
low priority, is deaf to Ctrl-C, and ends by itself when the parent is gone, because then its input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from typing import BinaryIO

NICE = 10


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer every request line: ``{"detailed", "brief"}`` or ``{"error"}`` with the traceback."""
    from memory.summaries.extractive import summarise
    from memory.tokens import ScriptCounter

    count = ScriptCounter().count
    for line in source:
        try:
            asked = json.loads(line)
            detailed, brief = summarise(
                asked["text"],
                asked["question"],
                asked["profile"],
                detailed_tokens=asked["detailed_tokens"],
                brief_tokens=asked["brief_tokens"],
                count=count,
            )
            answer = {"detailed": detailed, "brief": brief}
        except Exception:  # noqa: BLE001 - the border of a background job: the parent records it
            answer = {"error": traceback.format_exc(limit=-8)}
        sink.write(json.dumps(answer).encode() + b"\n")
        sink.flush()


def main() -> None:
    """``argv[1]``: the parent's sys.path as JSON."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(NICE)
    # numpy must not start a thread per core for sums over a few hundred numbers
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    sys.path[:] = json.loads(sys.argv[1])
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
