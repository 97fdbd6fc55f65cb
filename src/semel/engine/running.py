"""Which clusters run on this machine: one small file each, held open and locked by the process that runs it.

Keeps: the lock tells whether a cluster is alive. The operating system drops it with the process, however that ends, so
       a stale file or a reused process id cannot deceive: what is in a file counts while its lock is held, it is the
       holder's own, and a process is signalled only after that was seen with the process already in hand.
Why:   looking at a file takes its lock for a moment, and removes it when nobody held it. A claim that opened it in
       between would hold a file that nobody can find any more, so each of these steps is done under one guard.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from semel.engine.cache import cache_folder
from semel.engine.private import FILE_MODE, open_private, private_folder
from semel.errors import ConfigError, EnvironmentFailure
from semel.protocol.clear_text import is_loopback

STOP_S_MAX = 60.0
GUARD_S_MAX = 30.0
POLL_S = 0.05
GUARD_POLL_S = 0.001
DESCRIPTION_BYTES_MAX = 1 << 16


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
    host: str = "127.0.0.1"  # where it listens
    client_settings: dict[str, str] = field(default_factory=dict)  # what clients set, without names and passwords
    knows_clients: bool = False  # by users or certificates

    def shown(self) -> dict[str, object]:
        """Everything that may be printed: without the token, which lets its owner break the cluster."""
        return {name: value for name, value in asdict(self).items() if name != "token"}

    def exposures(self) -> list[str]:
        """What the network may do with this cluster, in words; empty when it is on loopback or protected."""
        if is_loopback(self.host):
            return []
        found = []
        if not self.client_settings.get("security.protocol", "").endswith("SSL"):
            found.append(f"it listens on {self.host} without TLS: anybody on the network can read along")
        if not self.knows_clients:
            found.append(f"it listens on {self.host} without users: anybody who reaches it can read and write")
        return found


def _folder() -> Path:
    return cache_folder() / "clusters"


def _file(name: str) -> Path:
    # The name becomes a file's name: nothing in it may lead out of the folder.
    if not name or not all(sign.isalnum() or sign in "-_." for sign in name) or name.startswith("."):
        raise ConfigError(f"{name!r} cannot name a cluster", you_want="letters, digits, dash, dot and underscore")
    return _folder() / f"{name}.json"


def open_log(name: str) -> IO[str]:
    """Open the log file of a cluster without a terminal; it replaces that of an earlier cluster."""
    _file(name)
    folder = private_folder(private_folder(cache_folder()) / "clusters")
    return os.fdopen(open_private(folder / f"{name}.log", os.O_CREAT | os.O_RDWR | os.O_TRUNC), "w+")


@contextmanager
def _guarded() -> Iterator[None]:
    """One at a time: held for the few steps that open, lock, write or remove a run file."""
    folder = private_folder(private_folder(cache_folder()) / "clusters")
    with os.fdopen(open_private(folder / ".guard", os.O_CREAT | os.O_RDWR), "r+") as guard:
        deadline = time.monotonic() + GUARD_S_MAX
        while not _lock(guard.fileno()):
            if time.monotonic() > deadline:
                raise EnvironmentFailure(
                    f"another process has held {folder / '.guard'} for more than {GUARD_S_MAX:.0f} s",
                    because="looking at run files takes no time, unless a process is stopped in the middle of it",
                    next_command=f"see who has it open: fuser {folder / '.guard'}",
                )
            time.sleep(GUARD_POLL_S)
        yield


class Claim:
    """The right to run a cluster under a name; held until the process ends or lets go."""

    def __init__(self, name: str) -> None:
        """Take the name, or raise when a cluster runs under it."""
        self._path = _file(name)
        with _guarded():
            self._descriptor = open_private(self._path, os.O_CREAT | os.O_RDWR)
            if not _lock(self._descriptor):
                os.close(self._descriptor)
                raise EnvironmentFailure(
                    f"a cluster named {name!r} runs already, or is starting",
                    next_command=f"semel cluster status, semel cluster stop --name {name}, or another --name",
                )
            # What a killed cluster left would describe this one until it publishes.
            os.ftruncate(self._descriptor, 0)
            # A file that was there already keeps the mode it had, and a token is about to be written.
            os.fchmod(self._descriptor, FILE_MODE)

    def publish(self, running: Running) -> None:
        """Say what runs here."""
        data = json.dumps(asdict(running), indent=2).encode()
        with _guarded():
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, data, 0)

    def release(self) -> None:
        """Give the name back."""
        with _guarded():
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find(name: str) -> Running | None:
    """The cluster that runs under this name; a file that nobody holds is removed."""
    path = _file(name)
    if not path.parent.is_dir():
        return None  # nothing ever ran here, and looking makes no folders
    with _guarded():
        try:
            descriptor = open_private(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if _lock(descriptor):
                # The lock was free, so the process that wrote the file has ended.
                path.unlink()
                return None
            return _described(os.pread(descriptor, DESCRIPTION_BYTES_MAX, 0))
        finally:
            os.close(descriptor)


def _described(data: bytes) -> Running | None:
    try:
        running = Running(**json.loads(data))
    except (ValueError, TypeError):
        return None  # it is starting and has not said yet where
    # 0 and -1 would stand for whole groups of processes.
    return running if type(running.pid) is int and running.pid > 0 else None


def find_all() -> list[Running]:
    """Every cluster that runs, by name."""
    # Only the guard's name begins with a dot.
    names = sorted(path.stem for path in _folder().glob("[!.]*.json"))
    return [running for name in names if (running := find(name)) is not None]


def stop(running: Running, seconds_max: float = STOP_S_MAX) -> None:
    """Ask a cluster to stop and wait until it has; nothing is done when it has ended in the meantime."""
    try:
        _signal_holder(running)
    except ProcessLookupError:
        return
    except PermissionError:
        raise EnvironmentFailure(f"the cluster {running.name!r} belongs to another user (pid {running.pid})") from None
    deadline = time.monotonic() + seconds_max
    # Until the name is free or somebody else's: another cluster may take it at once.
    while find(running.name) == running:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(
                f"the cluster {running.name!r} did not stop within {seconds_max:.0f} s",
                next_command=f"kill -9 {running.pid}",
            )
        time.sleep(POLL_S)


def _signal_holder(running: Running) -> None:
    """Send SIGTERM to the process that holds the name, as long as it does."""
    if sys.platform != "linux":
        if find(running.name) == running:
            os.kill(running.pid, signal.SIGTERM)
        return
    process = os.pidfd_open(running.pid)
    try:
        # In this order: the process in hand is then the one that held the name, not a later one of the same number.
        if find(running.name) == running:
            signal.pidfd_send_signal(process, signal.SIGTERM)
    finally:
        os.close(process)
