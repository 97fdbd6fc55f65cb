"""Where compiled kernels are kept.

Keeps: compiled once per user, source text, numba version and CPU; a folder that others can write to is never used,
       since numba's cache files are pickles; without any usable folder the kernels still work, compiled per process.
Why:   numba's own choice (`__pycache__`, then its user-wide folder) raises where both are read-only, as in many
       containers, and does not notice a change in a inlined that lives in another file. The folder name carries a
       digest of all kernel sources, so every version of semel has its own, and each kernel has one signature, so
       processes that compile at the same time write the same bytes (numba replaces files atomically).
"""

import hashlib
import os
import stat
import tempfile
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import numba

llvm: Any = import_module("llvmlite.binding")


@cache
def cache_folder() -> Path | None:
    """Return the first folder that only this user can write to, made if need be; None when there is none."""
    return next((folder for folder in map(_prepared, _candidates()) if folder is not None), None)


def _candidates() -> list[Path]:
    name = f"kernels-{_digest()}"
    chosen = os.environ.get("SEMEL_CACHE_DIR")
    if chosen:
        return [Path(chosen) / name]
    homes = [Path(os.environ["XDG_CACHE_HOME"])] if os.environ.get("XDG_CACHE_HOME") else []
    homes += [Path(home) / ".cache" for home in [os.environ.get("HOME")] if home]
    return [home / "semel" / name for home in homes] + [Path(tempfile.gettempdir()) / f"semel-{os.getuid()}" / name]


def _prepared(folder: Path) -> Path | None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        safe = _is_private(folder.parent) and _is_private(folder)
    except OSError:
        return None
    return folder if safe else None


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write


def _digest() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {llvm.get_host_cpu_name()}".encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    for source in sorted(resources.files("semel.protocol.kernels").iterdir(), key=lambda entry: entry.name):
        if source.name.endswith(".py"):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:20]
