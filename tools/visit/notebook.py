"""Notebooks (.ipynb) to Markdown. Runs in the extraction child."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.visit.extracted import Extracted, Unreadable

_OUTPUT_CHARS = 5000


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Output(_Open):
    text: str | list[str] = ""
    data: dict[str, object] = {}
    ename: str = ""
    evalue: str = ""


class _Cell(_Open):
    cell_type: str = "code"
    source: str | list[str] = ""
    outputs: list[_Output] = []


class _Notebook(_Open):
    cells: list[_Cell]


def notebook_text(body: bytes) -> Extracted:
    """Text cells as they are, code fenced, text outputs below it. Raises Unreadable."""
    try:
        notebook = _Notebook.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as error:
        raise Unreadable("not a readable notebook") from error
    text = "\n\n".join(part for cell in notebook.cells for part in _parts(cell))
    if not text.strip():
        raise Unreadable("the notebook is empty")
    return Extracted("", text, (f"notebook of {len(notebook.cells)} cells",))


def _parts(cell: _Cell) -> Iterator[str]:
    source = _joined(cell.source).strip()
    if not source:
        return
    yield f"```\n{source}\n```" if cell.cell_type == "code" else source
    for output in cell.outputs:
        plain = output.data.get("text/plain", "")
        shown = _joined(output.text) or _joined(plain if isinstance(plain, str | list) else "")
        shown = shown or (f"{output.ename}: {output.evalue}" if output.ename else "")
        if shown.strip():
            yield f"Output:\n{shown.strip()[:_OUTPUT_CHARS]}"


def _joined(text: str | list[object] | list[str]) -> str:
    return text if isinstance(text, str) else "".join(part for part in text if isinstance(part, str))
