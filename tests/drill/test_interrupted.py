"""Ctrl-C in the middle of a cell: one line, the exit code of an interruption, no process and no folder left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.exit_code import ExitCode
from tests.support.waiting import eventually

# The second one is never begun.
CELLS = ("copy.exactly-once.client-killed-at-committing", "copy.at-least-once.client-killed-at-sent")


def children(pid: int) -> dict[int, str]:
    """Processes that a process has started, with their command lines."""
    found = {}
    for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found[int(one)] = Path(f"/proc/{one}/cmdline").read_text()
        except FileNotFoundError:
            continue
    return found


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.full
def test_an_interrupted_cell_leaves_nothing(tmp_path: Path) -> None:
    scratch, said = tmp_path / "scratch", tmp_path / "said"
    scratch.mkdir()
    command = [sys.executable, "-m", "semel", "drill", *CELLS, "--runs"]
    with said.open("w") as stderr:
        drill = subprocess.Popen(
            [*command, str(tmp_path / "runs")], stderr=stderr, env={**os.environ, "TMPDIR": str(scratch)}
        )
    try:
        seen: dict[int, str] = {}

        def life_runs() -> bool:
            assert drill.poll() is None, said.read_text()
            seen.update(children(drill.pid))
            return any("client_life" in line for line in seen.values())

        eventually(life_runs, 120, what="a client runs")
        assert list(scratch.iterdir())
        drill.send_signal(signal.SIGINT)
        # A shell says 130 to both. Python ends itself by the signal if that came while a library ran code of its own.
        assert drill.wait(120) in (ExitCode.INTERRUPTED, -signal.SIGINT)
    finally:
        drill.kill()
    eventually(lambda: not any(map(is_there, seen)), what="no process is left")
    assert not list(scratch.iterdir())
    lines = said.read_text().splitlines()
    assert "interrupted after" in lines[-1], lines
    assert not [line for line in lines if "Traceback" in line or "Error" in line]
