"""Bring any streaming query to the points at which a crash matters, start it again, and count what that did.

The query is a command that works off its input and ends (`trigger(availableNow=True)`). Nothing of semel has to be in
it: a point is found by watching its checkpoint and its outputs (`replay_points`, `output_probe`).

Why: a signal cannot be sent at an exact moment. So the query is killed first, and looked at then, when nothing changes
     any more: only what stands at the point counts as struck there. A micro-batch that is too quick to be seen at work
     is followed by one that is killed after a drawn part of the time that the last one took.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semel.audit.finding import Kind
from semel.drill.commands import RunningCommand, last_lines
from semel.drill.output_probe import Mark, Probe
from semel.drill.replay_points import Checkpoint, Point, Sight
from semel.errors import EnvironmentFailure
from semel.world.rng import Rng, SeededRng

# A quick micro-batch takes some tens of milliseconds from its plan to its commit.
PAUSE_S = 0.005
TRIES = 3  # for each kill
# A producer's transaction is ended a minute after it has died, unless its settings say otherwise, and a coordinator
# looks every ten seconds.
TRANSACTION_S_MAX = 90.0
TRANSACTION_PAUSE_S = 0.5
SETTLED_LOOKS = 3  # an output that looks the same so often in a row has stopped changing

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """One point: how often it was reached, and what it did to the output."""

    point: Point
    times: int
    anomalies: Counts
    """What is proven."""
    is_whole: bool
    """Whether the audit could tell."""
    unproven: Counts = field(default_factory=dict)
    """What else was counted: it may be due to a side that is not complete."""
    doubt: str = ""
    """What of the anomalies may be older than the strike."""
    reason: str = ""
    """Why it was not reached, or why the audit could not tell."""
    applies: bool = True
    """Whether such a point exists in this query at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit counted, kind by kind; `is_whole` unless a side was not complete, with the reason then."""

    anomalies: Counts
    is_whole: bool
    unproven: Counts = field(default_factory=dict)
    reason: str = ""


NOTHING = Audited(anomalies={}, is_whole=True)
# What is wrong with rows that an output has is there in the next audit again, and is subtracted. What an output lacks
# never is: before the strike it may have been input that the query had not read yet, and that the strike then lost.
STAYS = frozenset({Kind.DUPLICATED, Kind.ALTERED, Kind.UNEXPECTED, Kind.REORDERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one point is played on: the job, its checkpoint, its outputs, and who counts."""

    command: Sequence[str]
    checkpoint: Path
    outputs: Sequence[Probe | None]
    audit: Callable[[], Audited]
    sides: tuple[str, ...] = ()
    """What it audits."""
    environment: Mapping[str, str] = field(default_factory=dict)
    feed: Callable[[], None] = lambda: None
    """Brings new input, where semel makes it."""


@dataclass(slots=True, kw_only=True)
class Replay:
    """A job that is struck at these points, each on the stage that `stage_of` makes for it."""

    stage_of: Callable[[Point], Stage]
    points: Sequence[Point]
    kills: int
    run_s_max: float
    seed: int
    narrate: Callable[[str], None]
    _keeps_state: bool | None = None

    def run(self) -> list[Struck]:
        """Strike at every point; each job is left at the end of its input."""
        found = []
        before: dict[tuple[Path, tuple[str, ...]], Audited] = {}
        for point in self.points:
            if reason := self._cannot_apply(point):
                found.append(_not_struck(point, reason, applies=False))
                continue
            stage = self.stage_of(point)
            checkpoint = Checkpoint(stage.checkpoint)
            # What was wrong before the first strike is not the strike's doing. Points may share a checkpoint and have
            # an output each: what one output has says nothing about another.
            place = (stage.checkpoint, stage.sides)
            if place not in before:
                before[place] = NOTHING
                if checkpoint.committed():
                    self.narrate("auditing what is there already")
                    before[place] = stage.audit()
            run = _StageRun(self, stage, checkpoint, point)
            try:
                struck, before[place] = run.strike(before[place])
            finally:
                run.close()
            if checkpoint.committed():
                self._keeps_state = checkpoint.keeps_state()
            # A query that was killed before this was known may have been damaged all the same.
            is_harmless = struck.is_whole and not any(struck.anomalies.values())
            if is_harmless and (reason := self._cannot_apply(point)):
                struck = _not_struck(point, reason, applies=False)
            found.append(struck)
        return found

    def _cannot_apply(self, point: Point) -> str:
        return "the query keeps no state" if point is Point.STATE and self._keeps_state is False else ""


def _not_struck(point: Point, reason: str, *, applies: bool = True) -> Struck:
    return Struck(point=point, times=0, anomalies={}, is_whole=True, reason=reason, applies=applies)


def _both(audited: Audited) -> Counts:
    return Counter(audited.anomalies) + Counter(audited.unproven)


def _more(after: Counts, before: Counts) -> Counts:
    """What was counted beyond what was there before the strike, and in full where that is not known."""
    return {kind: max(0, count - (before.get(kind, 0) if kind in STAYS else 0)) for kind, count in after.items()}


def _doubt(after: Audited, before: Audited) -> str:
    """Which of the proven anomalies may be older than the strike, and are counted as its doing all the same."""
    told = []
    for kind, count in _more(after.anomalies, before.anomalies).items():
        older = before.unproven.get(kind, 0) if kind in STAYS else _both(before).get(kind, 0)
        if shared := min(count, older):
            told.append(f"{shared} {kind}")
    return f"up to {', '.join(told)} may be older than the strike" if told else ""


class _StageRun:
    """One point on its stage."""

    def __init__(self, replay: Replay, stage: Stage, checkpoint: Checkpoint, point: Point) -> None:
        self._replay, self._stage, self._checkpoint, self._point = replay, stage, checkpoint, point
        self._kills = 0
        self._rng: Rng = SeededRng(replay.seed).fork(point.word)

    def strike(self, before: Audited) -> tuple[Struck, Audited]:
        """Strike, and count what came of it; also gives what the output has now."""
        point, stage = self._point, self._stage
        if point is Point.BETWEEN and len(stage.outputs) == 1:
            return _not_struck(point, "one output; --also names another", applies=False), before
        # Which point a query was killed at is seen in its outputs.
        if None in stage.outputs and point is not Point.FORGOTTEN and point is not Point.STATE:
            return _not_struck(point, "this kind of output cannot be watched"), before
        times = self._forget() if point is Point.FORGOTTEN else self._kill()
        # A kill that missed its point may have done damage all the same.
        if not times and not self._kills:
            return _not_struck(point, "there was no micro-batch to strike"), before
        self._wait_for_transactions()
        after = stage.audit()
        reason = after.reason if times else f"killed {self._kills} times, each time a moment too early or too late"
        struck = Struck(
            point=point,
            times=times,
            anomalies=_more(after.anomalies, before.anomalies),
            is_whole=after.is_whole,
            unproven=_more(after.unproven, _both(before)),
            doubt=_doubt(after, before),
            reason=reason,
        )
        return struck, after

    def _wait_for_transactions(self) -> None:
        """Wait until no transaction of a killed life is open: until then, its rows and all behind them are not read."""
        outputs = [one for one in self._stage.outputs if one is not None]
        deadline = time.monotonic() + TRANSACTION_S_MAX
        is_told = False
        while any(one.has_open_transaction() for one in outputs):
            if not is_told:
                self._replay.narrate(f"waiting for a transaction that is open, {TRANSACTION_S_MAX:.0f} s at most")
                is_told = True
            if time.monotonic() > deadline:
                self._replay.narrate("the transaction is still open; the audit cannot see what is in it and behind it")
                return
            time.sleep(TRANSACTION_PAUSE_S)

    def close(self) -> None:
        """Close the connections to the outputs."""
        for output in self._stage.outputs:
            if output is not None:
                output.close()

    # --- the points

    def _kill(self) -> int:
        times = 0
        for _ in range(self._replay.kills * TRIES):
            self._stage.feed()
            sight = self._run_until_moment()
            if sight is None:
                break
            self._kills += 1
            # Judged after the kill: nothing changes any more.
            times += sight.is_hit(self._point)
            told = f"micro-batch {sight.micro_batch_id}: killed, and it was {sight}"
            self._replay.narrate(f"{self._point}: {told}; {times} of {self._replay.kills}")
            if times == self._replay.kills:
                break
        self._run_to_end()
        return times

    def _forget(self) -> int:
        """Recreate exactly what a driver leaves that dies after its sink's commit."""
        checkpoint = self._checkpoint
        if not checkpoint.committed() or checkpoint.planned() - checkpoint.committed():
            self._stage.feed()
            self._run_to_end()
        last = checkpoint.forget_last()
        if last is None:
            return 0
        self._replay.narrate(f"{self._point}: micro-batch {last} is taken out of the commit log; starting again")
        self._run_to_end()
        return int(last in checkpoint.committed())

    # --- the job

    def _run_until_moment(self) -> Sight | None:
        """Kill the job when a new micro-batch of it is at the point; None if it came to its end before."""
        known = self._checkpoint.planned()
        watch = _Watch(self._checkpoint, [one for one in self._stage.outputs if one is not None], known)
        watch.look()  # before the job is there: its first micro-batch may be written before anybody can look again
        with (
            tempfile.TemporaryFile() as output,
            RunningCommand(self._stage.command, output.fileno(), environment=self._stage.environment) as job,
        ):
            deadline = time.monotonic() + self._replay.run_s_max
            delay_s: float | None = None
            while job.process.poll() is None:
                sight = watch.look()
                if sight is not None and sight.is_committed:
                    # It was too quick to be seen at the point: the next one is killed at a drawn moment.
                    delay_s = self._rng.uniform(0.0, watch.end())
                elif sight is not None and (sight.is_moment(self._point) or watch.is_planned_for(delay_s)):
                    job.kill()
                    return watch.look()
                self._check_time(deadline)
                time.sleep(PAUSE_S)
            self._check_end(job.process.returncode, output.fileno())
        return None

    def _run_to_end(self) -> None:
        with (
            tempfile.TemporaryFile() as output,
            RunningCommand(self._stage.command, output.fileno(), environment=self._stage.environment) as job,
        ):
            try:
                job.process.wait(self._replay.run_s_max)
            except subprocess.TimeoutExpired:
                self._check_time(0.0)
            self._check_end(job.process.returncode, output.fileno())

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise EnvironmentFailure(
                f"the job has not ended after {self._replay.run_s_max:.0f} s",
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


class _Watch:
    """Follows the micro-batches of a running query that it had not planned before."""

    def __init__(self, checkpoint: Checkpoint, outputs: Sequence[Probe], known: set[int]) -> None:
        self._checkpoint, self._outputs, self._known = checkpoint, outputs, set(known)
        self._before: list[Mark] | None = None
        self._latest: list[Mark] = []
        self._same = [0] * len(outputs)
        self._number: int | None = None
        self._planned_at = 0.0

    def look(self) -> Sight | None:
        """The micro-batch that is under way, as it is now; None while there is none."""
        number = self._number
        if number is None:
            # The outputs as they were the last time that there was no plan: a quick micro-batch has rows by now. But if
            # an older micro-batch was still at work then, its rows came later, and the outputs of now are nearer.
            is_quiet = self._checkpoint.planned() <= self._checkpoint.committed()
            marks = self._marks()
            new = self._checkpoint.planned() - self._known
            if not new:
                self._before = marks if is_quiet else None
                return None
            number = self._number = max(new)
            if self._before is None:
                self._before = marks
            self._latest = marks
            self._same = [0] * len(self._outputs)
            self._planned_at = time.monotonic()
        # In this order: a micro-batch in the commit log had its rows before.
        is_committed = number in self._checkpoint.committed()
        has_state = self._checkpoint.has_state_of(number)
        marks, before = self._marks(), self._before or []
        is_same = [mark == older for mark, older in zip(marks, self._latest, strict=True)]
        self._same = [count + 1 if same else 0 for count, same in zip(self._same, is_same, strict=True)]
        self._latest = marks
        return Sight(
            micro_batch_id=number,
            is_committed=is_committed,
            has_state=has_state,
            changed=tuple(mark != older for mark, older in zip(marks, before, strict=True)),
            settled=tuple(
                count >= SETTLED_LOOKS and not mark.is_half_written
                for mark, count in zip(marks, self._same, strict=True)
            ),
        )

    def is_planned_for(self, delay_s: float | None) -> bool:
        """Whether so many seconds have passed since the micro-batch was planned."""
        return delay_s is not None and time.monotonic() - self._planned_at >= delay_s

    def end(self) -> float:
        """Wait for the next micro-batch; returns how many seconds this one took."""
        if self._number is not None:
            self._known.add(self._number)
        self._number = self._before = None
        return time.monotonic() - self._planned_at

    def _marks(self) -> list[Mark]:
        return [output.look() for output in self._outputs]
