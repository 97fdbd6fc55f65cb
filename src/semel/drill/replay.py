"""Bring any streaming query to the points at which a crash matters, start it again, and count what that did.

The query is a command that works off its input and ends (`trigger(availableNow=True)`). Nothing of semel has to be in
it: a crash is seen in its checkpoint alone. A micro-batch has a file in `offsets/` once it is planned, and one in
`commits/` once Spark takes it for done.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from semel.drill.commands import RunningCommand, last_lines
from semel.errors import EnvironmentFailure

PAUSE_S = 0.005
TRIES = 3  # for each kill

Counts = Mapping[str, int]


class Point(StrEnum):
    """Where the query is struck."""

    PLANNED = "killed with a micro-batch planned"
    """As soon as a new file in `offsets/` has none in `commits/`: before, while or after rows are written."""
    FORGOTTEN = "rows written, not in the commit log"
    """The last file of `commits/` is removed: what a driver leaves that dies between its sink's commit and Spark's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One point: how often it was reached, and what it did to the output."""

    point: Point
    times: int
    anomalies: Counts
    is_whole: bool
    """Whether the audit could tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit counted, kind by kind; `is_whole` unless a side was not complete."""

    anomalies: Counts
    is_whole: bool


@dataclass(slots=True, kw_only=True)
class Replay:
    """A job, its checkpoint, and who counts."""

    command: Sequence[str]
    checkpoint: Path
    audit: Callable[[], Audited]
    kills: int
    run_s_max: float
    narrate: Callable[[str], None]

    def run(self) -> list[Struck]:
        """Strike at every point; the job is left at the end of its input."""
        before = Audited(anomalies={}, is_whole=True)
        if self._ids("commits"):
            self.narrate("auditing what is there already")
            before = self.audit()
        found = []
        for strike in (self._kill, self._forget):
            point, times = strike()
            after = self.audit() if times else Audited(anomalies=before.anomalies, is_whole=True)
            more = {kind: max(0, count - before.anomalies.get(kind, 0)) for kind, count in after.anomalies.items()}
            found.append(Struck(point=point, times=times, anomalies=more, is_whole=after.is_whole))
            before = after
        return found

    # --- the points

    def _kill(self) -> tuple[Point, int]:
        times = 0
        for _ in range(self.kills * TRIES):
            number = self._run_until_planned()
            if number is None:
                break
            # The signal may come a moment too late, with the micro-batch in the commit log: that has shown nothing, and
            # the next micro-batch is tried.
            is_late = number in self._ids("commits")
            times += not is_late
            told = "done before it could be killed" if is_late else "planned: killed"
            self.narrate(f"micro-batch {number} was {told}; starting the job again")
            if times == self.kills:
                break
        self._run_to_end()
        return Point.PLANNED, times

    def _forget(self) -> tuple[Point, int]:
        committed = self._ids("commits")
        if not committed:
            return Point.FORGOTTEN, 0
        last = max(committed)
        folder = self.checkpoint / "commits"
        # Hadoop keeps a checksum beside each file, and refuses a file whose checksum is another one's.
        for name in (str(last), f".{last}.crc"):
            (folder / name).unlink(missing_ok=True)
        self.narrate(f"micro-batch {last} is taken out of the commit log; starting the job again")
        self._run_to_end()
        return Point.FORGOTTEN, int(last in self._ids("commits"))

    # --- the job

    def _run_until_planned(self) -> int | None:
        """Kill the job when it has planned a micro-batch that it had not; None if it came to its end."""
        known = self._ids("offsets")
        with tempfile.TemporaryFile() as output, RunningCommand(self.command, output.fileno()) as job:
            deadline = time.monotonic() + self.run_s_max
            while job.process.poll() is None:
                if new := self._ids("offsets") - known - self._ids("commits"):
                    return max(new)
                self._check_time(deadline)
                time.sleep(PAUSE_S)
            self._check_end(job.process.returncode, output.fileno())
        return None

    def _run_to_end(self) -> None:
        with tempfile.TemporaryFile() as output, RunningCommand(self.command, output.fileno()) as job:
            try:
                job.process.wait(self.run_s_max)
            except subprocess.TimeoutExpired:
                self._check_time(0.0)
            self._check_end(job.process.returncode, output.fileno())

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(
                f"the job has not ended after {self.run_s_max:.0f} s",
                you_want="a job that works off its input and ends: trigger(availableNow=True); or a longer --timeout",
            )

    def _check_end(self, code: int, output: int) -> None:
        if code == 0:
            return
        raise EnvironmentFailure(
            f"the job ended with exit code {code}",
            because=last_lines(output),
            you_want="a job that ends without an error when nothing strikes it",
        )

    def _ids(self, folder: str) -> set[int]:
        try:
            return {int(path.name) for path in (self.checkpoint / folder).iterdir() if path.name.isdigit()}
        except FileNotFoundError:
            return set()
