"""`check_sink`: whether a sink keeps what the three guarantees promise, whatever dies, wakes up or comes twice.

    def make() -> Output:
        table = new_table()                       # a new one each time: every check begins with an empty output
        return Output(sink=MySink(table), read=lambda: table.values())

    check_sink(make)

Rows have two columns of text, `key` and `value`; `read` gives the values that a reader of the output sees. No Spark is
needed: tasks run in this process. The first check that fails is raised with its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from semel.errors import FencedError, OutcomeUnknownError, SemelError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import Column, CommitStep, MicroBatch, OnStep, Sink, SinkSession, ignore_step
from semel.sinks.commit import Commit
from semel.testing.local_work import LocalWork
from semel.wire.topology import TopicPartition

# Enough for two tasks, and for ranges that begin in the middle.
ROWS = 12
# What every sink can hold.
COLUMNS = (Column(name="key", type="string", json='"string"'), Column(name="value", type="string", json='"string"'))
# A name for each trial: the ledger of an earlier one must not decide anything.
_numbers = count(1)


class SinkCheckFailed(AssertionError):
    """A promise that the sink does not keep; the text begins with the check."""


# No Exception: nothing that handles errors between a step and the driver may catch a death.
class _Killed(BaseException):
    """Stands for the death of the driver's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An empty output, and how to look at it."""

    sink: Sink
    read: Callable[[], Iterable[object]]
    # The topic that offsets are said to be of; Kafka keeps them for topics that exist.
    source: str = "source"


class _Trial:
    """A pipeline into one output, whose drivers live and die."""

    def __init__(self, output: Output, name: str) -> None:
        self._output = output
        self._name = name
        self._source = TopicPartition(output.source, 0)
        self.pipeline = f"check-{next(_numbers)}"

    def open(self) -> SinkSession:
        """A new driver."""
        self._output.sink.check_columns(COLUMNS)
        return self._output.sink.open(self.pipeline)

    def micro_batch(self, number: int, guarantee: Guarantee = Guarantee.EXACTLY_ONCE) -> MicroBatch:
        """One of a query whose checkpoint is in order."""
        return MicroBatch(
            pipeline=self.pipeline,
            query_id="query",
            id=number,
            guarantee=guarantee,
            offsets={self._source: (number + 1) * ROWS},
            offsets_before={self._source: number * ROWS},
            # The hardest case: a driver that was started again cannot know whether this micro-batch was run before.
            is_replay=True,
        )

    def ranged(self, micro_batch: MicroBatch, first: int, end: int) -> MicroBatch:
        """The same over another range of the source."""
        return replace(micro_batch, offsets={self._source: end}, offsets_before={self._source: first})

    def write(
        self,
        session: SinkSession,
        micro_batch: MicroBatch | int,
        on_step: OnStep = ignore_step,
        *,
        work: LocalWork | None = None,
    ) -> int:
        """Write one micro-batch; a driver that dies in it lets go of all that its process had."""
        chosen = self.micro_batch(micro_batch) if isinstance(micro_batch, int) else micro_batch
        try:
            return Commit(
                session=session, micro_batch=chosen, work=work or self.work(chosen), on_step=on_step
            ).execute()
        except _Killed:
            session.let_go()
            raise

    def work(self, micro_batch: MicroBatch) -> LocalWork:
        """The rows of a micro-batch, in two tasks."""
        first = (micro_batch.offsets_before or {})[self._source]
        end = (micro_batch.offsets or {})[self._source]
        # Two tasks, so that a sink that takes the result of one only is found out.
        middle = (first + end) // 2
        batches = [_rows(first, middle), _rows(middle, end)]
        return LocalWork(batches=[batch for batch in batches if batch.num_rows], columns=COLUMNS)

    def expect(self, end: int, *, may_repeat: bool = False, may_lose: bool = False) -> None:
        """Every row up to this one is there once, and no other."""
        seen, wanted = Counter(_number(value) for value in self._output.read()), Counter(range(end))
        lost, extra = sorted((wanted - seen).elements()), sorted((seen - wanted).elements())
        if (lost and not may_lose) or (extra and not (may_repeat and set(extra) <= set(wanted))):
            raise SinkCheckFailed(f"{self._name}: of {end} rows {lost} are lost, {extra} are there too often")

    def refuse(self, micro_batch: MicroBatch, *, has_state: bool = False) -> None:
        """This must be refused, and nothing be written."""
        # Not only the number: rows in the place of others are written rows too.
        before = sorted(map(str, self._output.read()))
        session, work = self.open(), self.work(micro_batch)
        work.has_state = has_state
        try:
            self.write(session, micro_batch, work=work)
        except SemelError:
            session.let_go()
        else:
            raise SinkCheckFailed(f"{self._name}: micro-batch {micro_batch.id} was not refused")
        if sorted(map(str, self._output.read())) != before:
            raise SinkCheckFailed(f"{self._name}: it was refused, and rows were written all the same")


def check_sink(make: Callable[[], Output]) -> list[str]:
    """Run every check, each with an output of its own; gives their names."""
    done: list[str] = []
    for name, check in _CHECKS.items():
        check(lambda case="", name=name: _Trial(make(), f"{name} {case}".strip()))
        done.append(name)
    return done


Make = Callable[..., _Trial]


def _die_at(step: CommitStep, nth: int = 1) -> OnStep:
    left = [nth]

    def die(done: CommitStep) -> None:
        if done is step:
            left[0] -= 1
            if left[0] == 0:
                raise _Killed

    return die


def _check_deaths(make: Make) -> None:
    """The driver dies after each step of its second micro-batch."""
    for step in CommitStep:
        trial = make(f"(after {step})")
        session = trial.open()
        trial.write(session, 0)
        with suppress(_Killed):
            trial.write(session, 1, _die_at(step))
        # Before anybody takes over: until then, readers must not see what only a successor would remove.
        trial.expect(2 * ROWS if step is CommitStep.COMMITTED else ROWS)
        successor = trial.open()
        for number in (1, 2):
            trial.write(successor, number)
        trial.expect(3 * ROWS)


def _check_repeats(make: Make) -> None:
    """Micro-batches that are there come again, to the same driver and to a new one."""
    trial = make()
    first = trial.open()
    for number in (0, 1):
        trial.write(first, number)
    trial.write(first, 1)
    second = trial.open()
    for number in (0, 1, 2):
        trial.write(second, number)
    trial.expect(3 * ROWS)


def _check_ranges(make: Make) -> None:
    """Ranges that do not begin where the output ends."""
    trial = make()
    trial.write(trial.open(), 0)
    trial.refuse(trial.micro_batch(2))
    trial.refuse(trial.ranged(trial.micro_batch(1), ROWS // 2, 2 * ROWS))
    trial.write(trial.open(), 1)
    trial.expect(2 * ROWS)


def _check_empty(make: Make) -> None:
    """Micro-batches without rows: with new offsets the ledger moves on, without them nothing happens."""
    trial = make()
    session = trial.open()
    trial.write(session, 0)
    nothing = LocalWork(batches=[], columns=COLUMNS)
    trial.write(session, trial.ranged(trial.micro_batch(1), ROWS, ROWS), work=nothing)
    trial.write(session, trial.ranged(trial.micro_batch(2), ROWS, 2 * ROWS), work=nothing)
    trial.expect(ROWS)
    # The ledger stands where the empty range ends. What begins behind that would lose rows, what begins before it would
    # repeat some.
    trial.refuse(trial.ranged(trial.micro_batch(3), 3 * ROWS, 4 * ROWS))
    trial.refuse(trial.ranged(trial.micro_batch(3), ROWS, 3 * ROWS))


def _check_attempts(make: Make) -> None:
    """Tasks are run twice, where any attempt may write; and a job fails after its tasks have written."""
    trial = make()
    session = trial.open()
    for number in (0, 1):
        work = trial.work(trial.micro_batch(number))
        work.attempts = 2
        trial.write(session, number, work=work)
    trial.expect(2 * ROWS)
    work = trial.work(trial.micro_batch(2))
    work.failures = [SinkError("a task failed"), SinkError("and again")]
    trial.write(session, 2, work=work)
    trial.expect(3 * ROWS)


def _check_owners(make: Make) -> None:
    """An older driver wakes up in the middle of a micro-batch that its successor has committed."""
    for step in (CommitStep.OWNED, CommitStep.LEDGER_READ, CommitStep.OPENED):
        trial = make(f"(asleep after {step})")
        older = trial.open()
        trial.write(older, 0)
        newer = trial.open()
        with suppress(FencedError):
            trial.write(older, 1, _overtake_at(step, trial, newer))
        trial.expect(2 * ROWS)
        try:
            trial.write(older, 2)
        except FencedError:
            pass
        else:
            raise SinkCheckFailed(f"owners (asleep after {step}): an older driver goes on beside its successor")
        trial.write(newer, 2)
        trial.expect(3 * ROWS)


def _overtake_at(step: CommitStep, trial: _Trial, newer: SinkSession) -> OnStep:
    turns = [newer]

    def overtake(at: CommitStep) -> None:
        if at is step and turns:
            trial.write(turns.pop(), 1)

    return overtake


def _check_outcomes(make: Make) -> None:
    """Nobody hears whether a commit happened: the next driver finds out."""
    for is_done in (True, False):
        trial = make("(committed)" if is_done else "(not committed)")
        session = trial.open()
        trial.write(session, 0)
        with suppress(OutcomeUnknownError):
            _lose_answer(trial, session, is_done=is_done)
        session.let_go()
        successor = trial.open()
        for number in (1, 2):
            trial.write(successor, number)
        trial.expect(3 * ROWS)


def _lose_answer(trial: _Trial, session: SinkSession, *, is_done: bool) -> None:
    commit = session.commit

    def lose() -> None:
        if is_done:
            commit()
        raise OutcomeUnknownError("the answer to the commit was lost")

    # On this one session: what a lost answer means is for the sink to find out, whatever it speaks to its output.
    session.commit = lose  # type: ignore[method-assign]
    trial.write(session, 1)


def _check_checkpoints(make: Make) -> None:
    """The checkpoint is lost: a new query begins at the beginning, or where the output ends."""
    trial = make()
    trial.write(trial.open(), 0)
    other = replace(trial.micro_batch(0), query_id="another query")
    trial.refuse(trial.ranged(other, 0, 2 * ROWS))
    at_end = trial.ranged(other, ROWS, 2 * ROWS)
    trial.refuse(at_end, has_state=True)
    trial.write(trial.open(), at_end)
    trial.expect(2 * ROWS)


def _check_weaker(make: Make) -> None:
    """At least once may repeat and never loses; at most once may lose and never repeats."""
    for guarantee, step in (
        # The moments that tell the two apart: rows without a ledger, and a ledger without rows.
        (Guarantee.AT_LEAST_ONCE, CommitStep.ROWS_WRITTEN),
        (Guarantee.AT_MOST_ONCE, CommitStep.COMMITTED),
    ):
        trial = make(f"({guarantee})")
        with suppress(_Killed):
            trial.write(trial.open(), trial.micro_batch(0, guarantee), _die_at(step))
        successor = trial.open()
        for number in (0, 1):
            trial.write(successor, trial.micro_batch(number, guarantee))
        is_at_least = guarantee is Guarantee.AT_LEAST_ONCE
        trial.expect(2 * ROWS, may_repeat=is_at_least, may_lose=not is_at_least)


_CHECKS: dict[str, Callable[[Make], None]] = {
    "deaths": _check_deaths,
    "repeats": _check_repeats,
    "ranges": _check_ranges,
    "empty": _check_empty,
    "attempts": _check_attempts,
    "owners": _check_owners,
    "outcomes": _check_outcomes,
    "checkpoints": _check_checkpoints,
    "weaker": _check_weaker,
}


def _rows(first: int, end: int) -> pa.RecordBatch:
    keys: list[str] = [f"key {number % 5}" for number in range(first, end)]
    values: list[str] = [str(number) for number in range(first, end)]
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.string()), pa.array(values, pa.string())], ["key", "value"])


def _number(value: object) -> int:
    return int(value.decode() if isinstance(value, bytes) else str(value))
