"""Files that code made: bounded, under names of our own, told to the model (rows F84, F88, F92)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Observation, ToolCall
from tests.tools.python.conftest import Make
from tools.python.artefacts import MAX_NAME, Artefacts, safe_name
from tools.python.base import WorkFile
from tools.python.local import LocalSandbox
from tools.python.tool import PythonTool
from tools.toolset import Toolset


async def python(toolset: Toolset, code: str, call: str = "s1.0") -> Observation:
    [observation] = await toolset.run([ToolCall(call, "python", {"code": code})], step=1)
    return observation


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_files_are_kept_and_told(sandbox: LocalSandbox, tmp_path: Path) -> None:
    toolset = Toolset([PythonTool(sandbox, artefacts=Artefacts(tmp_path / "files"))])
    code = "import os\nos.mkdir('out')\n"
    code += "n = open('out/plot.png', 'wb').write(b'\\x89PNG')\nn = open('a.txt', 'w').write('x')"
    observation = await python(toolset, code)
    assert observation.text == (
        "files: a.txt (1 bytes, kept as files/s1.0/a.txt), out/plot.png (4 bytes, kept as files/s1.0/out_plot.png)"
    )
    assert tree(tmp_path) == {"files/s1.0/a.txt": b"x", "files/s1.0/out_plot.png": b"\x89PNG"}
    await python(toolset, "open('a.txt', 'a').write('y'); None", "s2.0")
    assert tree(tmp_path)["files/s1.0/a.txt"] == b"x"  # a version is never overwritten
    assert tree(tmp_path)["files/s2.0/a.txt"] == b"xy"
    await toolset.aclose()


async def test_links_pipes_and_folders_are_no_files(sandbox: LocalSandbox, tmp_path: Path) -> None:
    toolset = Toolset([PythonTool(sandbox, artefacts=Artefacts(tmp_path / "files"))])
    code = (
        "import os\nos.symlink('/etc/passwd', 'passwd')\nos.symlink('/dev/zero', 'zero')\nos.mkfifo('pipe')\n"
        "os.mkdir('folder')\nos.symlink('/', 'folder/root')\nopen('real', 'w').close()"
    )
    assert (await python(toolset, code)).text == "files: real (0 bytes, kept as files/s1.0/real)"
    assert tree(tmp_path) == {"files/s1.0/real": b""}
    await toolset.aclose()


async def test_names_are_made_harmless(make: Make, tmp_path: Path) -> None:
    toolset = Toolset([PythonTool(make(), artefacts=Artefacts(tmp_path / "files"))])
    names = ["a\nb", "..x", "\u202egnp.exe", "con", "-rf", "é" * 100, "\\x", "a\x1b[2J"]
    code = f"for name in {names!r}: open(name, 'w').close()\nopen(b'\\xff\\xfe', 'w').close()"
    observation = await python(toolset, code)
    assert observation.error is None
    observation.text.encode()
    assert "\n" not in observation.text and "\x1b" not in observation.text
    kept = sorted(Path(name).name for name in tree(tmp_path))
    assert len(kept) == len(names) + 1
    assert all(name.isprintable() and not name.startswith((".", "-")) and len(name.encode()) < 120 for name in kept)
    await toolset.aclose()


async def test_too_many_and_too_large_are_named_and_not_kept(sandbox: LocalSandbox, tmp_path: Path) -> None:
    kept = Artefacts(tmp_path / "files", max_files=3, max_bytes=10)
    toolset = Toolset([PythonTool(sandbox, artefacts=kept)])
    text = (
        await python(toolset, "n = open('big', 'wb').write(bytes(6 << 20))\nn = open('a', 'w').write('x' * 8)")
    ).text
    assert "big (6,291,456 bytes, too large to keep)" in text and "a (8 bytes, kept as files/s1.0/a)" in text
    text = (await python(toolset, "for n in 'bcde': open(n, 'w').write(n)", "s2.0")).text
    assert text.count("kept as") == 2 and text.count("used up") == 2
    again = Artefacts(tmp_path / "files", max_files=3, max_bytes=10)  # a resumed session counts what is there
    assert again.keep("s3.0", [WorkFile("f", 1, b"f")])[0].why.startswith("not kept")
    await toolset.aclose()


def test_what_a_worker_says_of_a_file_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "s1.0").symlink_to(tmp_path)
    kept = Artefacts(tmp_path / "files").keep(
        "s2.0", [WorkFile("../../outside", 1, b"x"), WorkFile("/outside", 1, b"y")]
    )
    assert [one.at for one in kept] == ["files/s2.0/_.._outside", "files/s2.0/_outside"]
    assert (tmp_path / "outside").read_text() == "mine"


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    [kept] = Artefacts(tmp_path / "files").keep("s1.0", [WorkFile("a", 1, b"x")])
    assert kept.why.startswith("not kept: ")


@given(st.text())
def test_any_name_becomes_one_safe_name(name: str) -> None:
    safe = safe_name(name)
    assert safe and len(safe.encode()) <= MAX_NAME
    assert safe.isprintable() and not set(safe) & {"/", "\\", "\0"} and safe[0] not in ".-"
    assert Path(safe).name == safe


@pytest.mark.parametrize(
    ("name", "safe"), [("plot.png", "plot.png"), ("日本 図.png", "日本 図.png"), ("", "file"), ("..", "file")]
)
def test_good_names_stay(name: str, safe: str) -> None:
    assert safe_name(name) == safe
