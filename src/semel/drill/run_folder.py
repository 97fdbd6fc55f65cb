"""Where a run leaves what it did: a folder with its schedule and its journal, one JSON object in each line.

`schedule.jsonl` follows from what was asked for and from the seed alone: two runs of one seed write the same bytes.
`journal.jsonl` is what happened: what fired, what was observed, the verdicts. Old folders are removed when a new one is
made: those beyond an age, and the oldest ones while all together take too much room.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from semel.world.clock import RealClock

DAY_MS = 24 * 3_600_000
AGE_MS_MAX = 30 * DAY_MS
BYTES_MAX = 200_000_000
SCHEDULE, JOURNAL = "schedule.jsonl", "journal.jsonl"
# Nothing else is ever removed.
NAME = re.compile(r"run-\d{13}-\d+")


def runs_folder() -> Path:
    """Under `$SEMEL_CACHE`, or `~/.cache/semel`, as all that semel keeps."""
    chosen = os.environ.get("SEMEL_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "semel").expanduser().absolute() / "drills"


class RunFolder:
    """The folder of one run."""

    def __init__(self, runs: Path) -> None:
        """Make it, and remove old ones beside it."""
        now_ms = RealClock().wall_ms()
        runs.mkdir(parents=True, exist_ok=True)
        # Before the new one is there, which is therefore never removed.
        remove_old(runs, now_ms)
        self.path = runs / f"run-{now_ms:013d}-{os.getpid()}"
        self.path.mkdir()

    def plan(self, line: Mapping[str, object]) -> None:
        """Add to the schedule."""
        _append(self.path / SCHEDULE, json.dumps(line))

    def plan_lines(self, lines: list[str]) -> None:
        """Add lines that are JSON already."""
        _append(self.path / SCHEDULE, "\n".join(lines))

    def note(self, line: Mapping[str, object]) -> None:
        """Add to the journal; it is on the disk when this returns, whatever ends the run."""
        _append(self.path / JOURNAL, json.dumps(line))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for what nobody wants to keep, such as a cluster's logs."""
    folder = Path(tempfile.mkdtemp(prefix="semel-drill-"))
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            # Ctrl-C may strike in the middle of the first.
            shutil.rmtree(folder, ignore_errors=True)


def remove_old(runs: Path, now_ms: int) -> None:
    """Remove the folders of runs that are too old, and the oldest while all together are too large."""
    room = BYTES_MAX
    for folder in sorted((path for path in runs.iterdir() if NAME.fullmatch(path.name)), reverse=True):
        room -= sum(path.lstat().st_size for path in folder.rglob("*"))
        if room < 0 or int(folder.name.split("-")[1]) < now_ms - AGE_MS_MAX:
            shutil.rmtree(folder, ignore_errors=True)


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")
