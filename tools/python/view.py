"""What the sandbox sees of the host's files: the interpreter, system libraries, a few packages, four devices.

No /proc, no /sys, no /etc but two harmless files, no shell, no home, nothing of the repository or of the environment
that longstride is installed in.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("numpy", "scipy", "pandas", "sympy", "mpmath", "dateutil", "pytz", "tzdata", "six")
"""Shown inside where the host has them, each alone."""
PACKAGES_AT = "/packages"
WORKSPACE = "/workspace"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_FILES = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_SYSTEM = ("/usr", "/usr/local", "/")


@dataclass(frozen=True, slots=True)
class View:
    """``binds``: (host path, path inside), read-only. ``links``: (target, path inside). ``hidden``: paths inside that
    are covered by an empty folder. ``executable``: the interpreter, the same path on both sides."""

    executable: str
    binds: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]


def build_view(packages: Iterable[str] = PACKAGES) -> View:
    """The view for the running interpreter (its base, never the virtual environment)."""
    executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    binds = [(path, path) for path in (*_LIBRARIES, *_FILES) if Path(path).exists() and not Path(path).is_symlink()]
    links = [(str(Path(path).readlink()), path) for path in _LIBRARIES if Path(path).is_symlink()]
    if prefix not in _SYSTEM:
        binds.append((prefix, prefix))
    else:
        binds.append((executable, executable))
        if prefix == "/usr/local":
            binds.append(("/usr/local/lib", "/usr/local/lib"))
    hidden = [path for path in _site_folders(prefix) if _inside(path, [target for _, target in binds])]
    binds += _package_binds(packages)
    return View(executable, tuple(binds), tuple(links), tuple(hidden))


def _site_folders(prefix: str) -> Iterator[str]:
    """The base interpreter's own third-party packages: not for the sandbox."""
    stdlib = os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": prefix}))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = (
        f"{stdlib}/site-packages",
        f"{stdlib}/dist-packages",
        "/usr/lib/python3/dist-packages",
        f"/usr/lib/{version}/site-packages",
        f"/usr/lib64/{version}/site-packages",
    )
    return (folder for folder in dict.fromkeys(folders) if Path(folder).is_dir())


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def _package_binds(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in packages:
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            source = source.parent
        yield str(source.resolve()), f"{PACKAGES_AT}/{source.name}"
        libraries = source.with_name(f"{name}.libs")  # what wheels bring along
        if libraries.is_dir():
            yield str(libraries.resolve()), f"{PACKAGES_AT}/{libraries.name}"
