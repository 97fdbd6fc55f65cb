"""The driver process of `semel demo`: started, watched, killed, and started again from its checkpoint.

Keeps: nothing that was started here outlives its `with` block. The driver, its JVM and its workers are a session of
       their own, and the block ends only when the last of them is gone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from semel.cli.demo_pipeline import RUN_S_MAX
from semel.engine.java import spark_environment
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee
from semel.sinks.base import CommitStep

END_S_MAX = 20.0
WORKERS_S_MAX = 5.0
POLL_S = 0.02
SHOWN_LINES_MAX = 8
SHOWN_CHARACTERS_MAX = 300
START_S_MAX = 60
ERROR_LINE = re.compile(r"[\w.]*(Error|Exception|Failure)\b")
PROGRAM = "semel.cli.demo_pipeline"

Step = tuple[int, CommitStep]  # a micro-batch's number in this run of the driver, and what was just done


class Driver:
    """One run of the pipeline's driver."""

    def __init__(self, process: subprocess.Popen[str], log_file: Path) -> None:
        """It has been started."""
        self._process = process
        self._log_file = log_file

    def steps(self) -> Iterator[Step]:
        """Every step that the driver tells, until it ends; an end with an error is raised."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, step = line.strip().partition(" ")
            yield int(number), CommitStep(step)
        if code := self._process.wait(END_S_MAX):
            because = "\n              ".join(telling_lines(self._log_file.read_text(errors="replace")))
            raise EnvironmentFailure(f"the driver ended with {code}", because=because)

    def kill(self) -> None:
        """End the driver and its JVM at once, as a machine that loses power does."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_S_MAX)

    def end(self) -> None:
        """Kill what is left, and wait for workers: they end when their JVM is gone."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        started_s = time.monotonic()
        while (taken_s := time.monotonic() - started_s) < END_S_MAX and (members := session_members(self._process.pid)):
            if taken_s > WORKERS_S_MAX:
                _kill(members)
            time.sleep(POLL_S)


def _kill(members: Sequence[int]) -> None:
    for member in members:
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(member, signal.SIGKILL)


@contextmanager
def started(
    bootstrap: str, guarantee: Guarantee, folder: Path, *, orders_per_micro_batch: int, stop_after: int = 0
) -> Iterator[Driver]:
    """Start the driver on a folder that holds its checkpoint."""
    log_file = folder / "driver.log"
    options = ["--orders-per-micro-batch", str(orders_per_micro_batch), "--stop-after", str(stop_after)]
    with log_file.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-m", PROGRAM, bootstrap, guarantee, str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            cwd=folder,
            # A driver that is killed removes nothing: what it leaves goes with the folder of the demo.
            env={**os.environ, **spark_environment(), "TMPDIR": str(folder)},
            start_new_session=True,
        )
    driver = Driver(process, log_file)
    # Reading the driver's lines has no limit of its own: a driver that hangs would keep the demo for ever.
    watchdog = threading.Timer(START_S_MAX + RUN_S_MAX, driver.kill)
    watchdog.start()
    try:
        yield driver
    finally:
        watchdog.cancel()
        driver.end()


def telling_lines(log: str) -> list[str]:
    """The last errors of a driver's log, without the stacks and plans around them; else its last lines."""
    lines = [line for line in log.splitlines() if line.strip()]
    errors = list(dict.fromkeys(line[:SHOWN_CHARACTERS_MAX] for line in lines if ERROR_LINE.match(line)))
    return (errors or lines)[-SHOWN_LINES_MAX:]


def session_members(leader: int) -> list[int]:
    """The processes of a session, from /proc; without one there is nothing to see."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the last bracket: a program's name, which stands in brackets, may have blanks and brackets itself.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # A zombie runs no more; its parent has only not asked for it yet.
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.name))
    return found
