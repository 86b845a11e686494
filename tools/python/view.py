"""What the sandbox sees of the host's files: the interpreter, system libraries, a few packages, four devices.

No /proc, no /sys, no /etc but two harmless files, no shell, no home, nothing of the repository or of the environment
that longstride is installed in.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.python.interpreters import Interpreter, own_interpreter

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
    are covered by an empty folder. ``executable``: the interpreter, the same path on both sides. ``packages``: those of
    ``binds`` that are third-party packages."""

    executable: str
    binds: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    packages: tuple[tuple[str, str], ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Every host path that is shown, links resolved."""
        return tuple(dict.fromkeys(os.path.realpath(path) for path, _ in self.binds))


def build_view(packages: Iterable[str] = PACKAGES, interpreter: Interpreter | None = None) -> View:
    """The view for an interpreter (the running one). Packages are ours: another version of Python gets none."""
    interpreter = interpreter or own_interpreter()
    executable, prefix = interpreter.executable, interpreter.prefix
    binds = [(path, path) for path in (*_LIBRARIES, *_FILES) if Path(path).exists() and not Path(path).is_symlink()]
    links = [(str(Path(path).readlink()), path) for path in _LIBRARIES if Path(path).is_symlink()]
    if prefix not in _SYSTEM:
        binds.append((prefix, prefix))
    else:
        binds.append((executable, executable))
        if prefix == "/usr/local":
            binds.append(("/usr/local/lib", "/usr/local/lib"))
    hidden = [path for path in _site_folders(interpreter) if _inside(path, [target for _, target in binds])]
    fits = interpreter.version == (sys.version_info.major, sys.version_info.minor)
    shown = tuple(_package_binds(packages)) if fits else ()
    return View(executable, (*binds, *shown), tuple(links), tuple(hidden), shown)


def _site_folders(interpreter: Interpreter) -> Iterator[str]:
    """The base interpreter's own third-party packages: not for the sandbox."""
    version = "python{}.{}".format(*interpreter.version)
    folders = (
        f"{interpreter.stdlib}/site-packages",
        f"{interpreter.stdlib}/dist-packages",
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
