"""An idle cluster of three brokers costs next to nothing: memory and CPU time, as the kernel counts them.

Both are bounds on what the process uses, not on how long anything takes: CPU time does not grow when other processes
keep the machine busy.
"""

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

RESIDENT_BYTES_MAX = 150_000_000
CPU_SHARE_MAX = 0.01
WINDOW_S = 5.0
WAIT_S_MAX = 60.0
TOPICS = ("orders:6:3", "payments:6:3")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the kernel's counts are read from /proc")


@pytest.fixture
def idle_pid(tmp_path: Path) -> Iterator[int]:
    """Three brokers with two topics in a process of their own, to which nobody talks."""
    command = [sys.executable, "-m", "semel", "cluster", "start", "--brokers", "3", "--port", "0", "--topics", *TOPICS]
    environment = {**os.environ, "SEMEL_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = first_line(process.stdout)
        assert line.count(":") == 3, f"three addresses should be here: {line!r}"
        yield process.pid
        assert process.poll() is None, "the cluster ended while it was watched"
    finally:
        process.terminate()
        try:
            process.communicate(timeout=WAIT_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def first_line(output: IO[str]) -> str:
    with selectors.DefaultSelector() as selector:  # `select` itself refuses files numbered above 1,023
        selector.register(output, selectors.EVENT_READ)
        return output.readline() if selector.select(WAIT_S_MAX) else ""


def resident_bytes(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def cpu_ticks(pid: int) -> int:
    """User and system time of all threads of the process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_idle_cluster_uses_little_memory_and_hardly_any_cpu(idle_pid: int) -> None:
    ticks_before, began = cpu_ticks(idle_pid), time.monotonic()
    time.sleep(WINDOW_S)  # the window that is measured; nothing is waited for
    ticks_max = CPU_SHARE_MAX * (time.monotonic() - began) * os.sysconf("SC_CLK_TCK")
    ticks = cpu_ticks(idle_pid) - ticks_before

    assert ticks < ticks_max, f"{ticks} ticks of CPU time in {WINDOW_S:g} s, {ticks_max:g} are allowed"
    resident = resident_bytes(idle_pid)
    assert resident < RESIDENT_BYTES_MAX, f"{resident / 1e6:.0f} MB resident"
