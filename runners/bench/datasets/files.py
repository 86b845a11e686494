"""Tables as benchmarks are published: jsonl, csv, xlsx, parquet; and their hash."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from runners.errors import UsageFault
from runners.replay.jsonlines import content, lines

Row: TypeAlias = Mapping[str, object]
_FORMATS = (".jsonl", ".jsonl.gz", ".json", ".csv", ".xlsx", ".parquet")
csv.field_size_limit(1 << 24)


def find_file(path: Path, names: Sequence[str]) -> Path:
    """``path`` itself when it is a file, else what the first of ``names`` (glob patterns) finds there or below.

    Raises UsageFault, also where that is more than one file.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise UsageFault(f"--data {path}: no such file or folder")
    for name in names:
        found = sorted(path.glob(name)) or sorted(path.glob(f"**/{name}"))
        if len(found) > 1:
            few = ", ".join(str(file.relative_to(path)) for file in found[:3])
            raise UsageFault(f"--data {path}: {len(found)} files could be meant: {few}", hint="name one: --data FILE")
        if found:
            return found[0]
    raise UsageFault(f"--data {path}: none of {', '.join(names)} is in it")


def read_rows(path: Path, required: Sequence[str]) -> list[Row]:
    """The rows of a table. Raises UsageFault for an unreadable one, and for one without the ``required`` columns."""
    name = path.name.lower()
    if not name.endswith(_FORMATS):
        raise UsageFault(f"{path}: not a table: {', '.join(_FORMATS)}")
    if name.endswith((".jsonl", ".jsonl.gz")):
        rows = _jsonl(path)
    elif name.endswith(".json"):
        rows = _json(path)
    else:
        rows = {".csv": _csv, ".xlsx": _xlsx, ".parquet": _parquet}[path.suffix.lower()](path)
    if not rows:
        raise UsageFault(f"{path}: no rows")
    missing = [column for column in required if not any(column in row for row in rows)]
    if missing:
        there = ", ".join(map(str, rows[0])) or "none"
        raise UsageFault(f"{path}: wrong columns: {', '.join(missing)} missing; there are {there}")
    return rows


def text_of(row: Row, column: str, where: str, *, empty: bool = False) -> str:
    """A cell as text. Raises UsageFault, naming the row, for none (unless it may be empty) or no text."""
    value = row.get(column)
    text = "" if value is None else str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageFault(f"{where}: {column} holds half a character (a lone surrogate)") from None
    if isinstance(value, list | dict):
        raise UsageFault(f"{where}: {column} is no text")
    if not text.strip() and not empty:
        raise UsageFault(f"{where}: {column} is empty")
    return text


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """An option that is true or false. Raises UsageFault for anything else."""
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise UsageFault(f"-o {name}={options[name]}: true or false is expected")
    return value == "true"


def among(options: Mapping[str, str], name: str, there: Iterable[object]) -> frozenset[str] | None:
    """An option that names values of the data, with commas; None where it is not given.

    Raises UsageFault for a value that the data does not have.
    """
    if not options.get(name):
        return None
    wanted, known = frozenset(part.strip() for part in options[name].split(",")), sorted(set(map(str, there)))
    if wanted - set(known):
        raise UsageFault(f"-o {name}={options[name]}: the data has {', '.join(known)}")
    return wanted


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over names and contents, in order."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except OSError as fault:
            raise UsageFault(f"{path}: cannot be read: {fault.strerror or fault}") from fault
    return digest.hexdigest()


def distinct(ids: Sequence[str], path: Path) -> None:
    """Raises UsageFault when an id stands twice: results are kept by it."""
    if len(set(ids)) < len(ids):
        twice, _ = Counter(ids).most_common(1)[0]
        raise UsageFault(f"{path}: the id {twice} stands twice")


def _jsonl(path: Path) -> list[Row]:
    rows: list[Row] = []
    for _, value in lines(path):
        if not isinstance(value, dict):
            raise UsageFault(str(value))
        rows.append(value)
    return rows


def _json(path: Path) -> list[Row]:
    try:
        value = json.loads(content(path))
    except (ValueError, RecursionError) as fault:
        raise UsageFault(f"{path}: not JSON: {fault}") from fault
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise UsageFault(f"{path}: not a list of objects")
    return list(value)


def _csv(path: Path) -> list[Row]:
    try:
        text = content(path).decode("utf-8-sig")
        rows: list[Row] = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as fault:
        raise UsageFault(f"{path}: not a CSV file in UTF-8: {fault}") from fault
    # that is where the reader puts cells that have no column
    wide = next((at for at, row in enumerate(rows, 1) if None in row), None)
    if wide is not None:
        raise UsageFault(f"{path}: row {wide}: more cells than columns")
    return rows


def _xlsx(path: Path) -> list[Row]:
    try:
        import openpyxl
    except ImportError as fault:
        raise UsageFault("spreadsheets need openpyxl", hint="pip install 'longstride[files]'") from fault
    from zipfile import BadZipFile

    try:
        book = openpyxl.load_workbook(io.BytesIO(content(path)), read_only=True, data_only=True)
    except (BadZipFile, KeyError, ValueError) as fault:
        raise UsageFault(f"{path}: not a spreadsheet: {fault}") from fault
    try:
        values = book.worksheets[0].iter_rows(values_only=True)
        head = [str(name).strip() if name is not None else "" for name in next(values, ())]
        return [dict(zip(head, row, strict=False)) for row in values if any(cell is not None for cell in row)]
    finally:
        book.close()


def _parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as fault:
        raise UsageFault("parquet files need pyarrow", hint="pip install 'longstride[parquet]'") from fault
    try:
        rows: list[Row] = parquet.read_table(io.BytesIO(content(path))).to_pylist()
    except (ArrowException, OSError) as fault:
        raise UsageFault(f"{path}: not a parquet file: {fault}") from fault
    return rows
