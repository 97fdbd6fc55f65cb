"""The points at which a query is struck, with a small program that keeps a checkpoint as Spark does."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from semel.drill.replay import Audited, Point, Replay
from semel.errors import ConfigError, EnvironmentFailure

MICRO_BATCHES = 4
# Writes a line for each micro-batch: again and again, or only if it is not there. While there is something in `stalls`,
# it stands still behind a plan of its own, so that it is seen there.
JOB = """
import signal, sys
from pathlib import Path

folder, mode, wrong = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "wrong"
for name in ("offsets", "commits"):
    (folder / "checkpoint" / name).mkdir(parents=True, exist_ok=True)
stalls = folder / "stalls"
for number in range(4):
    plan, commit = (folder / "checkpoint" / name / str(number) for name in ("offsets", "commits"))
    if commit.exists():
        continue
    if not plan.exists():
        left = stalls.read_text()
        stalls.write_text(left[1:])  # before the plan, with which the job is killed
        plan.touch()
        if left:
            signal.pause()
    lines = (folder / "output").read_text()
    if mode == "append" or f"{number};" not in lines:
        (folder / "output").write_text(lines + f"{number};")
    commit.touch()
    (commit.parent / f".{number}.crc").touch()
if wrong:
    sys.exit("it went wrong")
"""


def replay(
    folder: Path, mode: str = "append", *, stalls: int = 0, wrong: bool = False, run_s_max: float = 60
) -> Replay:
    (folder / "job.py").write_text(JOB)
    (folder / "stalls").write_text("x" * stalls)
    (folder / "output").touch()

    def audit() -> Audited:
        seen = Counter(number for number in (folder / "output").read_text().split(";") if number)
        lost = sum(str(number) not in seen for number in range(MICRO_BATCHES))
        return Audited(anomalies={"lost": lost, "duplicated": seen.total() - len(seen)}, is_whole=True)

    return Replay(
        command=[sys.executable, str(folder / "job.py"), str(folder), mode, "wrong" if wrong else "right"],
        checkpoint=folder / "checkpoint",
        audit=audit,
        kills=2,
        run_s_max=run_s_max,
        narrate=lambda _: None,
    )


@pytest.mark.parametrize(("mode", "doubled"), [("append", 1), ("once", 0)])
def test_each_point_is_reached_and_counted(tmp_path: Path, mode: str, doubled: int) -> None:
    killed, forgotten = replay(tmp_path, mode, stalls=2).run()
    assert (killed.point, killed.times) == (Point.PLANNED, 2)
    assert killed.anomalies == {"lost": 0, "duplicated": 0}
    assert (forgotten.point, forgotten.times) == (Point.FORGOTTEN, 1)
    assert forgotten.anomalies == {"lost": 0, "duplicated": doubled}


def test_what_was_there_before_is_nobodys_fault(tmp_path: Path) -> None:
    job = replay(tmp_path, "append")
    job.run()
    killed, forgotten = job.run()
    assert killed.times == 0
    assert forgotten.anomalies == {"lost": 0, "duplicated": 1}


def test_a_job_that_cannot_be_seen_planning_was_not_struck(tmp_path: Path) -> None:
    """All is done already: nothing is planned, so nothing was killed."""
    job = replay(tmp_path, "once")
    job._run_to_end()
    killed, _ = job.run()
    assert killed.times == 0


def test_a_checkpoint_of_another_job_has_nothing_to_forget(tmp_path: Path) -> None:
    job = replay(tmp_path)
    job.checkpoint = tmp_path / "elsewhere"
    assert [one.times for one in job.run()] == [0, 0]


def test_a_job_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="exit code 1") as told:
        replay(tmp_path, wrong=True).run()
    assert "it went wrong" in str(told.value)


def test_a_job_that_does_not_end_is_told_and_killed(tmp_path: Path) -> None:
    job = replay(tmp_path, stalls=9, run_s_max=0.5)
    job.kills = 1
    with pytest.raises(EnvironmentFailure, match="has not ended"):
        job.run()


def test_a_job_that_cannot_be_started(tmp_path: Path) -> None:
    job = replay(tmp_path)
    job.command = [str(tmp_path / "nothing")]
    with pytest.raises(ConfigError, match="cannot be started"):
        job.run()
