"""Office and data files, as pages and as attachments; made here by the libraries that people make them with."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import pytest

from runners.devserver.hostile.files import archive
from tools.base import CallContext
from tools.files import FileArguments, ParseFileTool
from tools.visit.extracted import Extracted, Unreadable
from tools.visit.files import FileReader
from tools.visit.office import MAX_UNPACKED, cell_text, office_text

ODF = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0">%s</office:document-content>'
)


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    reader = FileReader()
    yield reader
    reader.close()


def read(reader: FileReader, body: bytes, suffix: str = "") -> Extracted:
    return reader.read(body, suffix, "", "application/octet-stream")


def workbook() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "People"
    for row in (["name", "born", "paid"], ["Anna", date(1990, 5, 6), 12.0], ["Bo|b", None, 3.25]):
        sheet.append(row)
    sheet["E9"] = "far"
    hidden = book.create_sheet("Notes")
    hidden.sheet_state = "hidden"
    hidden["A1"] = True
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def test_a_workbook_keeps_its_columns(reader: FileReader) -> None:
    for suffix in ("", ".xlsx", ".bin"):
        assert read(reader, workbook(), suffix).text == (
            "## Sheet: People\nname | born | paid\nAnna | 1990-05-06 | 12\nBo/b |  | 3.25\n(5 empty rows)\n"
            " |  |  |  | far\n"
            "\n## Sheet: Notes (hidden)\nTrue"
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (3.0, "3"), (0.1, "0.1"), (1e20, "1e+20"), (datetime.fromisoformat("2020-01-02"), "2020-01-02"),
        (datetime.fromisoformat("2020-01-02T03:04"), "2020-01-02 03:04:00"), ("a\nb|c\0", "a b/c"), (True, "True"),
    ],
)  # fmt: skip
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_a_document_in_its_order(reader: FileReader) -> None:
    from docx import Document

    document = Document()
    document.core_properties.title = "The lease"
    document.add_heading("Terms", 1)
    document.add_paragraph("It ends in 2031.")
    table = document.add_table(2, 2)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {number}"
    table.cell(1, 0).merge(table.cell(1, 1))
    document.add_paragraph("first point", style="List Bullet")
    document.add_paragraph("after")
    file = io.BytesIO()
    document.save(file)
    found = read(reader, file.getvalue())
    assert found.title == "The lease"
    assert found.text == ("\n# Terms\nIt ends in 2031.\ncell 0 | cell 1\ncell 2; cell 3\n\n- first point\nafter")


def test_slides_with_tables_and_notes(reader: FileReader) -> None:
    from pptx import Presentation
    from pptx.util import Inches

    slides = Presentation()
    first = slides.slides.add_slide(slides.slide_layouts[0])
    first.shapes.title.text = "Harbour"
    first.notes_slide.notes_text_frame.text = "say it slowly"
    second = slides.slides.add_slide(slides.slide_layouts[6])
    table = second.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "built", "1831"
    file = io.BytesIO()
    slides.save(file)
    text = read(reader, file.getvalue()).text
    assert text == "[slide 1]\nHarbour\nNotes: say it slowly\n\n[slide 2]\nbuilt | 1831"


def test_open_document_files(reader: FileReader) -> None:
    cells = (
        '<table:table table:name="T"><table:table-row><table:table-cell table:number-columns-repeated="2">'
        "<text:p>a</text:p></table:table-cell></table:table-row>"
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell/>'
        "</table:table-row></table:table>"
    )
    body = archive({
        "mimetype": b"application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": (ODF % f'<text:h text:outline-level="2">Head</text:h><text:p>words</text:p>{cells}').encode(),
    })  # fmt: skip
    assert read(reader, body, ".ods").text == "\n## Head\nwords\n\n## Sheet: T\na | a"
    entity = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>{ODF % "<text:p>in &e; out</text:p>"}'.encode()
    read_back = read(reader, archive({"content.xml": entity}), ".odt").text
    assert read_back.startswith("in") and Path("/etc/hostname").read_text().strip() not in read_back


def test_a_notebook_is_its_cells(reader: FileReader) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": ["2"]}}, {"text": ["printed\n"]}]},
        {
            "cell_type": "code",
            "source": "1/0",
            "outputs": [{"ename": "ZeroDivisionError", "evalue": "division by zero"}],
        },
        {"cell_type": "code", "source": ""},
    ]
    found = reader.read(json.dumps({"cells": cells}).encode(), ".ipynb", "", "application/json")
    assert found.text == (
        "# Title\ntext\n\n```\n1 + 1\n```\n\nOutput:\n2\n\nOutput:\nprinted\n\n```\n1/0\n```\n\n"
        "Output:\nZeroDivisionError: division by zero"
    )


@pytest.mark.parametrize(
    ("body", "suffix", "kind", "said"),
    [
        (b"PK\x03\x04", ".xlsx", "parse", "damaged"),
        (archive({"xl/workbook.xml": b"<a/>"}), "", "parse", "not a readable xlsx"),
        (archive({"word/document.xml": b"<a/>"}), "", "parse", "not a readable docx"),
        (archive({"ppt/presentation.xml": b"<a/>"}), "", "parse", "not a readable pptx"),
        (archive({"content.xml": b"no xml"}), ".ods", "parse", "holds no"),
        (archive({"a.txt": b"words"}), ".zip", "unsupported", "not a text document"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), ".xls", "unsupported", "old or encrypted"),
        (b"{}", ".ipynb", "parse", "notebook"),
    ],
)
def test_broken_files_say_why(reader: FileReader, body: bytes, suffix: str, kind: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said) as failure:
        read(reader, body, suffix)
    assert failure.value.kind == kind


def test_a_zip_bomb_is_not_begun(reader: FileReader) -> None:
    body = bytearray(archive({"xl/workbook.xml": b"<a/>"}))
    at = body.rindex(b"PK\x01\x02") + 24
    body[at : at + 4] = (MAX_UNPACKED + 1).to_bytes(4, "little")
    with pytest.raises(Unreadable, match="unpacks to 400 MB") as failure:
        read(reader, bytes(body))
    assert failure.value.kind == "too_large"


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("openpyxl", "python_calamine", "docx", "pptx"):
        monkeypatch.setitem(sys.modules, name, None)
    for kind in ("xlsx", "xls", "docx", "pptx"):
        with pytest.raises(Unreadable, match=r"longstride\[files\]") as failure:
            office_text(kind, archive({"xl/workbook.xml": b"<a/>"}), 10.0)
        assert failure.value.kind == "unsupported"


async def test_attachments_are_read_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "staff.xlsx").write_bytes(workbook())
    (tmp_path / "long.csv").write_text("a,b\n" + "1,2\n" * 30)
    tool = ParseFileTool([tmp_path / "staff.xlsx", tmp_path / "long.csv"])
    context = CallContext("s1.1", 1)
    text = (await tool.run(FileArguments(file="staff.xlsx"), context)).text
    assert "Anna | 1990-05-06 | 12" in text
    assert "31 lines" in (await tool.run(FileArguments(file="long.csv"), context)).text
    await tool.aclose()
