"""Which clusters run on this machine: one small file each, held open and locked by the process that runs it.

The lock tells whether a cluster is alive: the operating system drops it with the process, however that ends, so a
stale file or a reused process id cannot deceive.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from semel.engine.cache import cache_folder
from semel.errors import ConfigError, EnvironmentFailure

STOP_S_MAX = 60.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One cluster that runs."""

    name: str
    engine: str
    bootstrap: str
    brokers: int
    data: str
    pid: int
    started_ms: int
    control_port: int = 0  # 0: it has no control socket
    token: str = ""

    def shown(self) -> dict[str, object]:
        """Everything that may be printed: without the token, which lets its owner break the cluster."""
        return {name: value for name, value in asdict(self).items() if name != "token"}


def _file(name: str) -> Path:
    if not name or not all(sign.isalnum() or sign in "-_." for sign in name) or name.startswith("."):
        raise ConfigError(f"{name!r} cannot name a cluster", you_want="letters, digits, dash, dot and underscore")
    return cache_folder() / "clusters" / f"{name}.json"


class Claim:
    """The right to run a cluster under a name; held until the process ends or lets go."""

    def __init__(self, name: str) -> None:
        """Take the name, or raise when a cluster runs under it."""
        self._path = _file(name)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.fchmod(self._descriptor, 0o600)  # a file that somebody else left may have another mode
        if not _lock(self._descriptor):
            os.close(self._descriptor)
            raise EnvironmentFailure(
                f"a cluster named {name!r} runs already",
                next_command=f"semel cluster status, semel cluster stop --name {name}, or another --name",
            )

    def publish(self, running: Running) -> None:
        """Say what runs here."""
        data = json.dumps(asdict(running), indent=2).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)

    def release(self) -> None:
        """Give the name back."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def find(name: str) -> Running | None:
    """The cluster that runs under this name; a file that nobody holds is removed."""
    path = _file(name)
    with _opened(path) as descriptor:
        if descriptor is None:
            return None
        if _lock(descriptor):
            path.unlink(missing_ok=True)
            return None
        try:
            return Running(**json.loads(os.pread(descriptor, 1 << 16, 0)))
        except (ValueError, TypeError):
            return None  # it is starting and has not said yet where


def find_all() -> list[Running]:
    """Every cluster that runs, by name."""
    names = sorted(path.stem for path in (cache_folder() / "clusters").glob("*.json"))
    return [running for name in names if (running := find(name)) is not None]


def stop(running: Running, seconds_max: float = STOP_S_MAX) -> None:
    """Ask a cluster to stop and wait until it has."""
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise EnvironmentFailure(f"the cluster {running.name!r} belongs to another user (pid {running.pid})") from None
    deadline = time.monotonic() + seconds_max
    while find(running.name) is not None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(
                f"the cluster {running.name!r} did not stop within {seconds_max:.0f} s",
                next_command=f"kill -9 {running.pid}",
            )
        time.sleep(POLL_S)
