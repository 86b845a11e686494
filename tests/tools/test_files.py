from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.records import Observation, ToolCall
from tools.files import MAX_BYTES, ParseFile
from tools.toolset import Toolset


@pytest.fixture
async def toolset(tmp_path: Path) -> AsyncIterator[Toolset]:
    (tmp_path / "other").mkdir()
    files = {
        "table.csv": b"name,year\nAda,1815\n",
        "data.json": b'{"a": [1, 2]}',
        "notes.md": b"# The notes\n\nBody \xe2\x82\xac",
        "long.txt": "\n\n".join(f"paragraph {n} " + "x" * 200 for n in range(20)).encode(),
        "page.html": b"<html><title>A page</title><body><p>Seen text of the page.</p><script>no</script></body></html>",
        "sheet.xlsx": b"PK\x03\x04" + b"\0" * 100,
        "picture.png": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        "broken.pdf": b"%PDF-1.7 nothing",
        "empty.txt": b"",
        "other/table.csv": b"other\n",
    }
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
    with (tmp_path / "huge.txt").open("wb") as huge:
        huge.truncate(MAX_BYTES + 1)
    (tmp_path / "secret.txt").write_text("not attached")
    paths = [tmp_path / name for name in (*files, "huge.txt", "gone.txt")]
    toolset = Toolset([ParseFile(paths, window_chars=1000)])
    yield toolset
    await toolset.aclose()


async def parse(toolset: Toolset, file: str, page: int = 1) -> Observation:
    [observation] = await toolset.run([ToolCall("s1.0", "parse_file", {"file": file, "page": page})], step=1)
    return observation


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("table.csv", "table.csv (whole file)\n\nname,year\nAda,1815"),
        ("data.json", 'data.json (whole file)\n\n{"a": [1, 2]}'),
        ("notes.md", "notes.md (whole file)\n\n# The notes\n\nBody €"),
        ("other/table.csv", "other/table.csv (whole file)\n\nother"),
        ("empty.txt", "empty.txt (whole file)\n\n[the file is empty]"),
    ],
)
async def test_reads_an_attachment(toolset: Toolset, file: str, text: str) -> None:
    observation = await parse(toolset, file)
    assert (observation.error, observation.text) == (None, text)
    assert observation.sources[0].url == f"file:{file}"


async def test_html_goes_through_extraction(toolset: Toolset) -> None:
    observation = await parse(toolset, "page.html")
    assert "Seen text of the page." in observation.text and "<p>" not in observation.text
    assert observation.sources[0].title == "A page"


async def test_pages_cover_the_whole_file(toolset: Toolset) -> None:
    first = await parse(toolset, "long.txt")
    assert "page 1 of 5; page=2 reads on" in first.text
    texts = [(await parse(toolset, "long.txt", page)).text for page in range(1, 6)]
    assert "this is the last" in texts[-1]
    assert all(any(f"paragraph {n} " in text for text in texts) for n in range(20))
    assert all(len(text) < 1100 for text in texts)
    beyond = await parse(toolset, "long.txt", 6)
    assert beyond.error == "not_found" and "5 pages" in beyond.text


@pytest.mark.parametrize(
    ("file", "kind", "says"),
    [
        ("sheet.xlsx", "unsupported", ".xlsx"),
        ("picture.png", "unsupported", ".png"),
        ("broken.pdf", "parse", "broken.pdf"),
        ("huge.txt", "too_large", "50 MB"),
        ("gone.txt", "not_found", "cannot be read"),
        ("secret.txt", "not_found", "Attached: table.csv"),
        ("../secret.txt", "not_found", "no such attachment"),
        ("/etc/passwd", "not_found", "no such attachment"),
        ("tabel.csv", "not_found", "Did you mean 'table.csv'?"),
    ],
)
async def test_what_cannot_be_read_says_why(toolset: Toolset, file: str, kind: str, says: str) -> None:
    observation = await parse(toolset, file)
    assert observation.error == kind
    assert says in observation.text
    assert "not attached" not in observation.text


async def test_a_pdf_without_text_says_so(tmp_path: Path) -> None:
    from pypdf import PdfWriter

    stream = io.BytesIO()
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.write(stream)
    (tmp_path / "scan.pdf").write_bytes(stream.getvalue())
    toolset = Toolset([ParseFile([tmp_path / "scan.pdf"])])
    observation = await parse(toolset, str(tmp_path / "scan.pdf"))
    assert observation.error == "parse" and "no text" in observation.text
    await toolset.aclose()


def test_the_model_is_told_what_is_attached(tmp_path: Path) -> None:
    tool = ParseFile([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert "Attached: a.csv, b.csv." in tool.description
