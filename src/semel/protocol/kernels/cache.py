"""Where compiled kernels are kept: under `$SEMEL_CACHE`, or `~/.cache/semel`, as all that semel makes once.

Keeps: compiled once per user, source text, numba version and CPU; a folder that others can write to is never used,
       since numba's cache files are pickles; without any usable folder the kernels still work, compiled per process.
Why:   numba's own choice (`__pycache__`, then its user-wide folder) raises where both are read-only, as in many
       containers, and does not notice a change in a function that lives in another file. The folder name carries a
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
    chosen = os.environ.get("SEMEL_CACHE")
    if chosen:
        return [Path(chosen).expanduser().absolute() / name]
    home = os.environ.get("HOME")
    folders = [Path(home) / ".cache" / "semel"] if home else []
    return [folder / name for folder in (*folders, Path(tempfile.gettempdir()) / f"semel-{os.getuid()}")]


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
    # `lstat`, so that a symbolic link is not followed to a folder that somebody else has prepared.
    found = folder.lstat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write


def _digest() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {llvm.get_host_cpu_name()}".encode())
    # A home folder may be shared by machines with different processors: code for one could crash on another.
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    for source in sorted(resources.files("semel.protocol.kernels").iterdir(), key=lambda entry: entry.name):
        if source.name.endswith(".py"):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:20]
