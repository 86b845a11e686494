"""Attached files: read whole or in parts, and nothing that was not attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.visit.documents import pdf
from tools.base import CallContext, ToolError
from tools.files import FileArguments, FilesConfig, ParseFileTool
from tools.toolset import spec

CALL = CallContext("s1.1", 1)


async def test_reads_what_was_attached_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAnna,31\n")
    (tmp_path / "b.pdf").write_bytes(pdf("Yearly report", title="Report"))
    (tmp_path / "long.txt").write_text("".join(f"line {n} of many\n" for n in range(100)))
    (tmp_path / "secret.txt").write_text("canary")
    (tmp_path / "table.xlsx").write_bytes(b"PK\x03\x04")
    attached = [tmp_path / name for name in ("a.csv", "b.pdf", "long.txt", "table.xlsx")]
    tool = ParseFileTool(attached, FilesConfig(window_chars=500))

    async def read(**given: object) -> str:
        return (await tool.run(FileArguments.model_validate(given), CALL)).text

    assert await read(file="a.csv") == "a.csv (whole file)\n\nname,age\nAnna,31"
    assert "Yearly report" in await read(file=str(tmp_path / "b.pdf"))
    assert "long.txt (page 2 of " in await read(file="long.txt", page=2)
    assert "line 77 of many" in await read(file="long.txt", find="line 77")
    for name in ("secret.txt", str(tmp_path / "secret.txt"), "../secret.txt", "/etc/passwd"):
        with pytest.raises(ToolError, match=r"attached: a\.csv, b\.pdf") as failure:
            await read(file=name)
        assert failure.value.kind == "not_found"
    with pytest.raises(ToolError, match="damaged") as broken:
        await read(file="table.xlsx")
    assert broken.value.kind == "parse"
    await tool.aclose()


async def test_a_link_keeps_its_name(tmp_path: Path) -> None:
    """As in the cache of a model hub, where contents are named by their hash."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "0abc12").write_text("name,age\nAnna,31\n")
    (tmp_path / "a.csv").symlink_to(tmp_path / "blobs" / "0abc12")
    tool = ParseFileTool([tmp_path / "a.csv"])
    assert (await tool.run(FileArguments(file="a.csv"), CALL)).text == "a.csv (whole file)\n\nname,age\nAnna,31"
    await tool.aclose()


def test_the_schema_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    properties = spec(ParseFileTool([tmp_path / "a.csv"])).parameters["properties"]
    assert isinstance(properties, dict) and isinstance(properties["file"], dict)
    assert properties["file"]["enum"] == ["a.csv"]


def test_needs_files_that_exist(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no files"):
        ParseFileTool([])
    with pytest.raises(FileNotFoundError):
        ParseFileTool([tmp_path / "nope.txt"])


async def test_two_files_of_one_name_go_by_path(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(f"from {folder}")
    tool = ParseFileTool([tmp_path / "x" / "a.txt", tmp_path / "y" / "a.txt"])
    observation = await tool.run(FileArguments(file=str(tmp_path / "y" / "a.txt")), CALL)
    assert "from y" in observation.text
    await tool.aclose()
