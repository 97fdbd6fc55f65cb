"""Cells in processes of their own: the same verdicts in the same order, and nothing left when one of them ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.drill.cell_workers import CellWorker, run_in_workers
from semel.drill.cells import Cell, chosen_cells
from tests.drill.test_interrupted import is_there
from tests.support.waiting import eventually

CELLS = (
    "produce.at-most-once.requests-lost-at-work",
    "produce.at-least-once.answers-lost-at-work",
    "produce.exactly-once.answers-lost-at-work",
)


def cells() -> list[Cell]:
    return [cell for name in CELLS for cell in chosen_cells([name])]


@pytest.mark.full
def test_several_at_once_say_what_one_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found, schedules = [], []
    for jobs in ("1", "3"):
        runs = tmp_path / jobs
        assert main(["drill", *CELLS, "-j", jobs, "--runs", str(runs), "--format", "json"]) == ExitCode.HELD
        said = capsys.readouterr()
        matrix = json.loads(said.out)["matrix"]
        found.append([(one["cell"], one["verdict"], one["observed"], sorted(one["fired"].values())) for one in matrix])
        begun = [line.split()[1] for line in said.err.splitlines() if line.startswith("[")]
        assert begun == list(CELLS)
        (folder,) = runs.iterdir()
        schedules.append((folder / "schedule.jsonl").read_bytes())
    assert found[0] == found[1]
    assert [one[0] for one in found[0]] == list(CELLS)
    assert schedules[0] == schedules[1]


def test_a_worker_that_dies_is_a_reason_and_the_next_cell_has_another(tmp_path: Path) -> None:
    (cell,) = chosen_cells([CELLS[2]])
    with CellWorker() as worker:
        assert worker.run(cell, 1).reason == ""
        assert worker._running is not None
        first = worker._running.process.pid
        os.kill(first, signal.SIGKILL)
        assert "the process that ran it has ended" in worker.run(cell, 1).reason
        after = worker.run(cell, 1)
        assert (after.reason, after.arrived, after.lost) == ("", after.sent, 0)
        assert worker._running.process.pid != first


def test_a_worker_is_told_what_goes_wrong_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it printed last is the reason: an UNKNOWN without one helps nobody."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with CellWorker() as worker:
        assert "the process that ran it has ended: it printed nothing" in worker.run(cells()[0], 1).reason


@pytest.mark.full
def test_whoever_stops_listening_ends_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workers = [CellWorker(), CellWorker()]
    results = run_in_workers(cells(), 1, workers)
    next(results)
    started = [worker._running.process for worker in workers if worker._running is not None]
    assert started
    assert list(tmp_path.iterdir())
    results.close()
    assert all(process.poll() is not None for process in started)
    assert not list(tmp_path.iterdir())


@pytest.mark.full
def test_an_interrupted_run_of_several_leaves_nothing(tmp_path: Path) -> None:
    scratch, said = tmp_path / "scratch", tmp_path / "said"
    scratch.mkdir()
    command = [sys.executable, "-m", "semel", "drill", "M13", "-j", "2", "--runs", str(tmp_path / "runs")]
    with said.open("w") as stderr:
        drill = subprocess.Popen(command, stderr=stderr, env={**os.environ, "TMPDIR": str(scratch)})
    seen: dict[int, str] = {}
    try:

        def lives_run() -> bool:
            assert drill.poll() is None, said.read_text()
            for one in [drill.pid, *seen]:
                if is_there(one):
                    seen.update(_children(one))
            return sum("client_life" in line for line in seen.values()) >= 1

        eventually(lives_run, 120, what="a client runs in a worker")
        drill.send_signal(signal.SIGINT)
        assert drill.wait(120) in (ExitCode.INTERRUPTED, -signal.SIGINT)
    finally:
        drill.kill()
    assert any("cell_worker" in line for line in seen.values())
    eventually(lambda: not any(map(is_there, seen)), what="no process is left")
    assert not list(scratch.iterdir())
    assert "interrupted after" in said.read_text().splitlines()[-1]


def _children(pid: int) -> dict[int, str]:
    """Of every thread: a worker is started by the one that waits for it."""
    found: dict[int, str] = {}
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for one in thread.read_text().split():
                found[int(one)] = Path(f"/proc/{one}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return found
