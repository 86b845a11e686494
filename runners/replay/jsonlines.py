"""JSON lines, plain or gzipped, with errors that name file and line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from runners.errors import UsageFault


def lines(path: Path) -> Iterator[tuple[int, object]]:
    """(line number, decoded object); a text is what is wrong with the line. Raises UsageFault for the file."""
    for number, line in enumerate(content(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogatepass"))
        except UnicodeDecodeError as fault:
            yield number, f"{path}:{number}: not UTF-8: {fault.reason}"
            continue
        except (ValueError, RecursionError) as fault:
            yield number, f"{path}:{number}: not JSON: {fault}"
            continue
        yield number, value if isinstance(value, dict) else f"{path}:{number}: not a JSON object"


def content(path: Path) -> bytes:
    """A file's bytes, decompressed when its name ends in ``.gz``. Raises UsageFault."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.endswith(".gz") else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise UsageFault(f"{path}: a damaged gzip file: {fault}") from fault
    except OSError as fault:
        raise UsageFault(f"{path}: cannot be read: {fault.strerror or fault}") from fault
