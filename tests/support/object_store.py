"""An object store that speaks S3's protocol, moto's server with a bucket; and a way to it that loses answers.

Why a process: deltalake waits for the store in threads of its own, perhaps with Python's lock held.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from semel.engine.child_guard import ChildGuard
from semel.world.ports import LOOPBACK, free_ports
from tests.support.waiting import eventually

START_S_MAX = 60.0
WAIT_S_MAX = 30.0
ROOT = Path(__file__).parents[2]
BUCKET = "bucket"
SECRET = "hush-0f3a-never-shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A server that runs."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def options(self, **others: str) -> dict[str, str]:
        """What deltalake takes."""
        return {
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        } | others


@contextmanager
def started(log: Path) -> Iterator[ObjectStore]:
    """Start a server with an empty bucket."""
    (port,) = free_ports(1)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    guard = ChildGuard(process.pid)
    store = ObjectStore(port=port)

    def has_bucket() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")
        try:
            wanted = urllib.request.Request(f"{store.endpoint}/{BUCKET}", method="PUT")
            return bool(urllib.request.urlopen(wanted, timeout=WAIT_S_MAX).status == 200)
        except OSError:
            return False

    try:
        eventually(has_bucket, START_S_MAX, what="the object store answers")
        yield store
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S_MAX)
        guard.release()


@pytest.fixture(scope="package")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """One server for the tests of a folder."""
    with started(tmp_path_factory.mktemp("store") / "server.log") as store:
        yield store


@dataclass(slots=True)
class Relayed:
    """A store behind a relay, and what became of answers that the relay kept back."""

    store: ObjectStore
    lost: list[str]


@contextmanager
def relayed(store: ObjectStore, *, lose: str, times: int) -> Iterator[Relayed]:
    """Lose the answers to the first writes of files with this in their path; `lost` is known afterwards."""
    command = [sys.executable, "-m", "tests.support.object_relay", str(store.port), lose, str(times)]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        guard = ChildGuard(process.pid)
        assert process.stdout is not None
        seen = Relayed(ObjectStore(port=int(process.stdout.readline())), [])
        try:
            yield seen
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            seen.lost += process.stdout.read().split()
            guard.release()
