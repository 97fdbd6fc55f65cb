"""`semel audit` as a program: a terminal shows how far it is, Ctrl-C leaves nothing behind, Spark may not start."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.exit_code import ExitCode
from tests.support.waiting import eventually, is_readable
from tests.unit.cli.test_demo import processes_with

TOLD_S_MAX = 120
# A record that takes as long as anybody waits: what is interrupted was certainly running.
ENDLESS = "java_method('java.lang.Thread', 'sleep', 600000L) = 'null'"


def read_on(terminal: int) -> bytes:
    """What is said next; nothing when everybody has gone who could say more."""
    assert is_readable(terminal, TOLD_S_MAX), "it goes on, and says nothing"
    try:
        return os.read(terminal, 4096)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


@pytest.mark.full
def test_ctrl_c_on_a_terminal_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    folder, rows = tmp_path / "scratch", tmp_path / "rows.jsonl"
    folder.mkdir()
    rows.write_text("\n".join(json.dumps({"id": one}) for one in range(3)))
    command = [sys.executable, "-m", "semel", "audit", str(rows), str(rows), "--where", ENDLESS]
    terminal, its_end = pty.openpty()
    audit = subprocess.Popen(
        [*command, "--conf", f"spark.local.dir={folder}"],
        stdout=subprocess.PIPE,
        stderr=its_end,
        env=os.environ | {"TMPDIR": str(folder)},
        cwd=folder,
        start_new_session=True,
    )
    os.close(its_end)
    said = b""
    try:
        # Spark draws its bar once a stage runs, also for what it reads to learn the columns.
        while b"[Stage" not in said.partition(b"taking fingerprints")[2]:
            more = read_on(terminal)
            assert more, said.decode()
            said += more
        os.killpg(audit.pid, signal.SIGINT)  # to all of them, as a terminal does
        while more := read_on(terminal):
            said += more
        out, _ = audit.communicate(timeout=TOLD_S_MAX)
    finally:
        audit.kill()
        os.close(terminal)
    assert audit.returncode in (ExitCode.INTERRUPTED, -signal.SIGINT)
    assert not out
    eventually(lambda: not processes_with(str(folder)), what="no process is left")
    assert not list(folder.iterdir())


@pytest.mark.full
def test_spark_that_has_too_little_memory_to_start_is_told(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1}')
    command = [sys.executable, "-m", "semel", "audit", str(rows), str(rows), "--conf", "spark.driver.memory=256m"]
    audit = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=TOLD_S_MAX)
    assert audit.returncode == ExitCode.ENVIRONMENT, audit.stderr
    told = audit.stderr[audit.stderr.index("semel: Spark does not start") :]
    assert "System memory" in told, "and what Spark says of it"
