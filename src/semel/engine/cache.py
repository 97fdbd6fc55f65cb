"""Files that are made once and kept: the folder they live in, and how several processes share it.

Keeps: a folder under the cache is either absent or complete, also after a crash and with several makers at once.
       Nobody but this user can write to it, or it is not used (private.py).
Why:   a maker fills a folder under a temporary name while it holds a file lock, then renames it. The lock is an
       operating-system lock: a killed maker leaves no lock behind, only a temporary folder that the next one removes.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from semel.engine.private import FOLDER_MODE, check_private, open_private, private_folder
from semel.errors import EnvironmentFailure

# Whoever holds it may be fetching jars over a slow network.
LOCK_WAIT_MS_MAX = 600_000
LOCK_POLL_MS = 50


def cache_folder() -> Path:
    """Return `$SEMEL_CACHE`, or `~/.cache/semel`."""
    chosen = os.environ.get("SEMEL_CACHE")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".cache" / "semel"


def keep_folder(target: Path, fill: Callable[[Path], None], *, wait_ms_max: int = LOCK_WAIT_MS_MAX) -> Path:
    """Return `target`; if it is not there yet, let `fill` write into an empty folder that then becomes `target`."""
    if cache_folder() in target.parents:
        private_folder(cache_folder())
    private_folder(target.parent)
    if os.path.lexists(target):
        check_private(target)
        return target
    with _locked(target.with_name(target.name + ".lock"), wait_ms_max):
        # Asked again under the lock: another process may have made it while this one waited.
        if not target.is_dir():
            _fill_and_rename(target, fill)
    return target


def _fill_and_rename(target: Path, fill: Callable[[Path], None]) -> None:
    unfinished = target.with_name(target.name + ".unfinished")
    # What a maker left that was killed.
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=FOLDER_MODE)
    try:
        fill(unfinished)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _locked(lock: Path, wait_ms_max: int) -> Iterator[None]:
    descriptor = open_private(lock, os.O_CREAT | os.O_RDWR)
    try:
        _acquire(descriptor, lock, wait_ms_max)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _acquire(descriptor: int, lock: Path, wait_ms_max: int) -> None:
    deadline_ms = _now_ms() + wait_ms_max
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _now_ms() >= deadline_ms:
                raise EnvironmentFailure(
                    f"another process has held {lock} for more than {wait_ms_max / 1000:.0f} s",
                    because="it is making the same files; two makers at once would mix them",
                    next_command=f"see who has it open: fuser {lock}",
                ) from None
            time.sleep(LOCK_POLL_MS / 1000)
        else:
            return


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
