"""Ctrl-C in `semel sim`: the exit code of an interruption, one line, no traceback, no process left."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from semel.cli.exit_code import ExitCode
from tests.support.waiting import eventually


def read_until(terminal: int, words: str) -> str:
    """What the program writes to its terminal, until it has said this."""
    found = ""
    while words not in found:
        found += os.read(terminal, 1 << 16).decode()
    return found


def read_rest(terminal: int) -> str:
    found = ""
    try:
        while chunk := os.read(terminal, 1 << 16):
            found += chunk.decode()
    except OSError:  # Linux says so when the last process has closed it
        pass
    return found


@pytest.mark.full
@pytest.mark.parametrize(("jobs", "to_all"), [("1", True), ("1", False), ("2", True), ("2", False)])
def test_an_interruption_is_quiet(jobs: str, to_all: bool) -> None:
    terminal, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "semel", "sim", "--seeds", "100000", "--jobs", jobs],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        read_until(terminal, "of 100000 seeds")
        if to_all:  # a terminal signals every process of the foreground
            os.killpg(program.pid, signal.SIGINT)
        else:
            program.send_signal(signal.SIGINT)
        rest = read_rest(terminal)
        assert program.wait(60) == ExitCode.INTERRUPTED, rest
        assert "Traceback" not in rest
        assert "Error" not in rest
        assert "interrupted after" in rest
        eventually(lambda: not group_lives(program.pid), what="no process is left")
    finally:
        os.close(terminal)
        if group_lives(program.pid):
            os.killpg(program.pid, signal.SIGKILL)
            program.wait(60)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
