"""The points at which a query is struck, with a small program that keeps a checkpoint as Spark does."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from semel.cli.drill_replay import verdict_of
from semel.cli.exit_code import ExitCode
from semel.drill.commands import RunningCommand
from semel.drill.output_probe import FolderProbe, Mark
from semel.drill.replay import Audited, Replay, Stage, Struck, _StageRun
from semel.drill.replay_points import Checkpoint, Point
from semel.errors import ConfigError, EnvironmentFailure

MICRO_BATCHES = 4
# Writes a line for each micro-batch into each output: again and again, only if it is not there, or never for a plan
# that an earlier life has made (`skip`). It stands still behind the step that `stalls` names, as often as it has
# letters, so that it is seen there.
JOB = """
import signal, sys
from pathlib import Path

folder, mode, kind, outputs = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4].split(",")
checkpoint = folder / "checkpoint"
for name in ("offsets", "commits"):
    (checkpoint / name).mkdir(parents=True, exist_ok=True)
stalls = folder / "stalls"


def step(name):
    wanted, _, left = stalls.read_text().partition(" ")
    if wanted == name and left:
        stalls.write_text(f"{wanted} {left[1:]}")
        return True
    return False


def stand_still(is_new, stalled):
    if is_new and stalled:
        signal.pause()


for number in range(4):
    plan, commit = (checkpoint / name / str(number) for name in ("offsets", "commits"))
    if commit.exists():
        continue
    is_new = not plan.exists()
    stalled = is_new and step("planned")  # before the plan, with which the job is killed
    plan.touch()
    stand_still(is_new, stalled)
    for name in outputs:
        place = folder / name
        place.mkdir(exist_ok=True)
        if mode == "skip" and not is_new:
            continue
        lines = "".join(path.read_text() for path in place.iterdir())
        if mode == "append" or f"{number};" not in lines:
            stalled = is_new and (step("writing") if name == outputs[-1] else step("between"))
            (folder / "half").write_text(f"{number};")
            (folder / "half").rename(place / f"{number}-{len(list(place.iterdir()))}")  # there is no torn file
            stand_still(is_new, stalled)
    if kind == "stateful":
        (checkpoint / "state/0/0").mkdir(parents=True, exist_ok=True)
        stalled = is_new and step("state")
        (checkpoint / f"state/0/0/{number + 1}.delta").touch()
        stand_still(is_new, stalled)
    commit.touch()
    (commit.parent / f".{number}.crc").touch()
    if not is_new and stalls.read_text()[-1:] == "x":
        looks = (folder / "looks").stat().st_size
        while (folder / "looks").stat().st_size < looks + 3:
            pass  # somebody is to see that this one is done before there is a next one
if kind == "wrong":
    sys.exit("it went wrong")
"""


class CountedProbe(FolderProbe):
    """Lets the job know that somebody looked."""

    def look(self) -> Mark:
        with (self.folder.parent / "looks").open("a") as file:
            file.write("x")
        return super().look()


def replay(
    folder: Path,
    mode: str = "append",
    *points: Point,
    stalls: str = "",
    kind: str = "plain",
    outputs: tuple[str, ...] = ("rows",),
    run_s_max: float = 60,
) -> Replay:
    folder.mkdir(exist_ok=True)
    (folder / "job.py").write_text(JOB)
    (folder / "stalls").write_text(stalls)

    def audit() -> Audited:
        lost = doubled = 0
        for output in outputs:
            texts = [path.read_text() for path in (folder / output).glob("*")]
            seen = Counter(number for text in texts for number in text.split(";") if number)
            lost += sum(str(number) not in seen for number in range(MICRO_BATCHES))
            doubled += seen.total() - len(seen)
        return Audited(anomalies={"lost": lost, "duplicated": doubled}, is_whole=True)

    def stage_of(_: Point) -> Stage:
        return Stage(
            command=[sys.executable, str(folder / "job.py"), str(folder), mode, kind, ",".join(outputs)],
            checkpoint=folder / "checkpoint",
            outputs=[CountedProbe(folder / output) for output in outputs],
            audit=audit,
        )

    return Replay(
        stage_of=stage_of, points=points or tuple(Point), kills=2, run_s_max=run_s_max, seed=1, narrate=lambda _: None
    )


def counted(struck: Struck) -> tuple[int, int, int]:
    return struck.times, struck.anomalies["lost"], struck.anomalies["duplicated"]


@pytest.mark.parametrize(("mode", "doubled"), [("append", 1), ("once", 0)])
def test_a_planned_micro_batch_has_written_nothing(tmp_path: Path, mode: str, doubled: int) -> None:
    planned, forgotten = replay(tmp_path, mode, Point.PLANNED, Point.FORGOTTEN, stalls="planned xx").run()
    assert counted(planned) == (2, 0, 0)
    assert counted(forgotten) == (1, 0, doubled)


@pytest.mark.parametrize(("mode", "doubled"), [("append", 2), ("once", 0)])
def test_a_query_is_killed_when_its_output_changes(tmp_path: Path, mode: str, doubled: int) -> None:
    (writing,) = replay(tmp_path, mode, Point.WRITING, stalls="writing xx").run()
    assert counted(writing) == (2, 0, doubled)


@pytest.mark.parametrize(("mode", "doubled"), [("append", 2), ("once", 0)])
def test_a_query_is_killed_when_state_is_written(tmp_path: Path, mode: str, doubled: int) -> None:
    (state,) = replay(tmp_path, mode, Point.STATE, stalls="state xx", kind="stateful").run()
    assert counted(state) == (2, 0, doubled)


@pytest.mark.parametrize(("mode", "doubled"), [("append", 2), ("once", 0)])
def test_a_query_is_killed_between_two_outputs(tmp_path: Path, mode: str, doubled: int) -> None:
    (between,) = replay(tmp_path, mode, Point.BETWEEN, stalls="between xx", outputs=("rows", "more")).run()
    assert counted(between) == (2, 0, doubled), "the first output alone has rows twice"


def test_a_kill_that_missed_its_point_is_not_counted_there_but_its_damage_is(tmp_path: Path) -> None:
    """Each plan is seen late, when its rows are there: then the query does not stand at the point it was killed for."""
    job = replay(tmp_path, "append", Point.PLANNED, stalls="writing xxxxxx")
    rows = tmp_path / "rows"

    class Late(CountedProbe):
        def look(self) -> Mark:
            found = super().look()
            planned = {path.name for path in tmp_path.glob("checkpoint/offsets/*")}
            while not planned <= {path.name.partition("-")[0] for path in rows.glob("*")}:
                pass  # the job stands still when it has written
            return found

    stage = job.stage_of(Point.PLANNED)
    job.stage_of = lambda _: Stage(
        command=stage.command, checkpoint=stage.checkpoint, outputs=[Late(rows)], audit=stage.audit
    )
    (planned,) = job.run()
    assert counted(planned) == (0, 0, MICRO_BATCHES)
    assert "too early or too late" in planned.reason


def test_points_that_a_query_does_not_have(tmp_path: Path) -> None:
    planned, _, state, between, _ = replay(tmp_path, "once", stalls="planned xx").run()
    assert planned.applies
    assert not state.applies
    assert state.reason == "the query keeps no state"
    assert not between.applies
    assert "--also" in between.reason


def test_an_output_that_nobody_can_watch_is_struck_where_that_does_not_matter(tmp_path: Path) -> None:
    job = replay(tmp_path, "append", Point.PLANNED, Point.WRITING, Point.FORGOTTEN)
    stage = job.stage_of(Point.PLANNED)
    job.stage_of = lambda _: Stage(
        command=stage.command, checkpoint=stage.checkpoint, outputs=[None], audit=stage.audit
    )
    planned, writing, forgotten = job.run()
    assert (planned.times, writing.times) == (0, 0)
    assert planned.applies
    assert "cannot be watched" in planned.reason
    assert counted(forgotten) == (1, 0, 1)


def test_what_was_there_before_is_nobodys_fault(tmp_path: Path) -> None:
    job = replay(tmp_path, "append", Point.PLANNED, Point.FORGOTTEN)
    job.run()
    planned, forgotten = job.run()
    assert planned.times == 0
    assert counted(forgotten) == (1, 0, 1)


def begun(folder: Path, done: str = "0;") -> None:
    """Leave what an earlier life has left that has done the first micro-batch."""
    for name, text in (("checkpoint/offsets/0", ""), ("checkpoint/commits/0", ""), ("rows/0-0", done)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_loss_is_told_in_full_although_more_was_waiting_before(tmp_path: Path) -> None:
    begun(tmp_path)
    (planned,) = replay(tmp_path, "skip", Point.PLANNED, stalls="planned xx").run()
    assert counted(planned) == (2, 2, 0)
    assert verdict_of(planned) is ExitCode.BROKEN
    assert planned.doubt == "up to 2 lost may be older than the strike"


def test_what_was_waiting_and_arrived_is_no_loss(tmp_path: Path) -> None:
    begun(tmp_path)
    (planned,) = replay(tmp_path, "once", Point.PLANNED, stalls="planned xx").run()
    assert counted(planned) == (2, 0, 0)
    assert verdict_of(planned) is ExitCode.HELD
    assert not planned.doubt


def test_a_loss_of_an_earlier_point_is_never_subtracted(tmp_path: Path) -> None:
    points = (Point.PLANNED, Point.FORGOTTEN)
    planned, forgotten = replay(tmp_path, "skip", *points, stalls="planned xx").run()
    assert counted(planned) == (2, 2, 0)
    assert not planned.doubt
    assert counted(forgotten) == (1, 2, 0)
    assert forgotten.doubt == "up to 2 lost may be older than the strike"


def test_what_one_output_has_is_not_subtracted_from_another(tmp_path: Path) -> None:
    """One checkpoint, and an output for each point."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "3-0").write_text("3;")
    job = replay(tmp_path, "append", Point.FORGOTTEN, Point.FORGOTTEN)
    stages = iter(
        replace(replay(tmp_path, "append", outputs=(name,)).stage_of(Point.FORGOTTEN), sides=("input", name))
        for name in ("rows", "more")
    )
    job.stage_of = lambda _: next(stages)
    assert [one.anomalies["duplicated"] for one in job.run()] == [1, 1]


def test_a_count_that_was_not_proven_before_hides_nothing(tmp_path: Path) -> None:
    begun(tmp_path)
    audits = iter(
        [
            Audited(anomalies={"duplicated": 1}, unproven={"unexpected": 5}, is_whole=False),
            Audited(anomalies={"duplicated": 3, "unexpected": 5}, unproven={"altered": 2}, is_whole=False),
        ]
    )
    job = replay(tmp_path, "once", Point.PLANNED, stalls="planned xx")
    stage = replace(job.stage_of(Point.PLANNED), audit=lambda: next(audits))
    job.stage_of = lambda _: stage
    (planned,) = job.run()
    assert planned.anomalies == {"duplicated": 2, "unexpected": 5}
    assert planned.unproven == {"altered": 2}
    assert planned.doubt == "up to 5 unexpected may be older than the strike"


def test_damage_at_a_point_that_does_not_apply_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a query keeps state is known when it has run; until then it is killed as if it did."""
    job = replay(tmp_path, "append", Point.STATE)
    run_to_end = _StageRun._run_to_end

    def miss(run: _StageRun) -> int:
        run_to_end(run)
        run._kills = 1
        Checkpoint(tmp_path / "checkpoint").forget_last()
        run_to_end(run)
        return 0

    monkeypatch.setattr(_StageRun, "_kill", miss)
    (state,) = job.run()
    assert counted(state) == (0, 0, 1)
    assert state.applies
    assert verdict_of(state) is ExitCode.BROKEN


class Transactional(CountedProbe):
    """An output with a transaction that a kill has left open, for so many looks."""

    open_looks = 0

    def has_open_transaction(self) -> bool:
        self.open_looks -= 1
        return self.open_looks >= 0


@pytest.mark.parametrize(("looks", "is_ended"), [(3, True), (1_000_000, False)])
def test_an_open_transaction_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int, is_ended: bool
) -> None:
    monkeypatch.setattr("semel.drill.replay.TRANSACTION_S_MAX", 1.0)
    monkeypatch.setattr("semel.drill.replay.TRANSACTION_PAUSE_S", 0.01)
    probe = Transactional(tmp_path / "rows")
    probe.open_looks = looks
    said: list[str] = []
    job = replay(tmp_path, "once", Point.PLANNED, stalls="planned xx")

    def audit() -> Audited:
        is_open = probe.open_looks > 0
        reason = "a transaction is open" if is_open else ""
        return Audited(anomalies={}, unproven={"lost": 9} if is_open else {}, is_whole=not is_open, reason=reason)

    stage = replace(job.stage_of(Point.PLANNED), outputs=[probe], audit=audit)
    job.stage_of, job.narrate = lambda _: stage, said.append
    (planned,) = job.run()
    assert any("transaction" in line for line in said)
    assert verdict_of(planned) is (ExitCode.HELD if is_ended else ExitCode.UNKNOWN)
    assert planned.reason == ("" if is_ended else "a transaction is open")


def test_a_job_that_has_nothing_left_to_do_was_not_struck(tmp_path: Path) -> None:
    replay(tmp_path, "once", Point.FORGOTTEN).run()
    planned, writing = replay(tmp_path, "once", Point.PLANNED, Point.WRITING).run()
    assert (planned.times, writing.times) == (0, 0)
    assert planned.applies
    assert planned.reason == "there was no micro-batch to strike"


def test_a_checkpoint_of_another_job_has_nothing_to_forget(tmp_path: Path) -> None:
    job = replay(tmp_path, "append", Point.PLANNED, Point.FORGOTTEN)
    stage = job.stage_of(Point.PLANNED)
    job.stage_of = lambda _: Stage(
        command=stage.command, checkpoint=tmp_path / "elsewhere", outputs=stage.outputs, audit=stage.audit
    )
    assert [one.times for one in job.run()] == [0, 0]


def test_a_job_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="exit code 1") as told:
        replay(tmp_path, kind="wrong").run()
    assert "it went wrong" in str(told.value)


def test_a_job_that_does_not_end_is_told_and_killed(tmp_path: Path) -> None:
    job = replay(tmp_path, "append", Point.FORGOTTEN, stalls="planned xxxxxxxxx", run_s_max=0.5)
    with pytest.raises(EnvironmentFailure, match="has not ended"):
        job.run()


def test_a_job_that_cannot_be_started(tmp_path: Path) -> None:
    job = replay(tmp_path)
    stage = job.stage_of(Point.PLANNED)
    job.stage_of = lambda _: Stage(
        command=[str(tmp_path / "nothing")], checkpoint=stage.checkpoint, outputs=stage.outputs, audit=stage.audit
    )
    with pytest.raises(ConfigError, match="cannot be started"):
        job.run()


def test_outputs_are_seen_before_the_job_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first micro-batch may be written before anybody can look."""
    seen_at_start: list[bool] = []

    class Started(RunningCommand):
        def __enter__(self) -> RunningCommand:
            seen_at_start.append((tmp_path / "looks").exists())
            return super().__enter__()

    monkeypatch.setattr("semel.drill.replay.RunningCommand", Started)
    replay(tmp_path, "append", Point.WRITING, stalls="writing xx").run()
    assert seen_at_start[0]
