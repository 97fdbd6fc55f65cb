"""A server ends with the process that has started it, also when that one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.engine.child_guard import ChildGuard
from tests.support.waiting import eventually

PROGRAM = Path(__file__).with_name("child_guard_program.py")


def is_gone(pid: int) -> bool:
    """Whether it has ended; who has no parent left may stay in the list of processes."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


@pytest.fixture
def open_folder() -> Iterator[str]:
    """Where servers leave what their owner did not remove; PostgreSQL may run as somebody else, who needs to get in."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield folder


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", ["bare", "apache", "postgres"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_who_started_it(kind: str, number: signal.Signals, open_folder: str) -> None:
    environment = {**os.environ, "TMPDIR": open_folder}
    command = [sys.executable, str(PROGRAM), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        server = int(owner.stdout.readline())
        assert not is_gone(server)
        owner.send_signal(number)
    eventually(lambda: is_gone(server), what="the server ends")


def test_who_is_let_go_lives_on() -> None:
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        ChildGuard(server.pid).release()
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
