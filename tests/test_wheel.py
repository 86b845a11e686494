"""The built wheel carries what it needs and its command runs in a folder that has packages of the same names."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "memory", "tools", "runners", "configs")


def call(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Standard output of a command that must succeed."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it, and our own dependencies behind it (but not this checkout)."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    variables = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", variables))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    call(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    return folder


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A project of somebody else's, with packages of our names."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"raise RuntimeError('the host project: {package}')\n")
    return tmp_path


def test_the_wheel_holds_packages_and_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "longstride.py" in names
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.startswith("agent/prompts/") and name.endswith(".md") for name in expected)
    assert {"configs/default.yaml", "configs/policies/pace.yaml"} <= expected
    assert not expected - names
    assert not [name for name in names if name.split("/")[0] in ("tests", "docs")]


@pytest.mark.parametrize("python_path", ["", "."])
def test_the_command_runs_beside_packages_of_the_same_names(installed: Path, host: Path, python_path: str) -> None:
    script = installed / "bin" / "longstride"
    shown = call(script, "policies", cwd=host, PYTHONPATH=python_path)
    assert "pace: " in shown
    assert "tau: 0.3" in shown
    assert "longstride " in call(script, "--version", cwd=host, PYTHONPATH=python_path)


def test_the_checkout_is_not_what_was_tested(installed: Path, host: Path) -> None:
    code = "import longstride; print(longstride.__file__)"
    found = call(installed / "bin" / "python", "-c", code, cwd=host)
    assert Path(found.strip()).is_relative_to(installed)
