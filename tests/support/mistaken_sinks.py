"""The example of a sink of one's own with a planted mistake: each must be found, by `check_sink` and by a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from examples import sqlite_sink
from semel.sinks.base import MicroBatch, Results, Task, WritePlan

_numbers = count(1)


class MistakenSink(sqlite_sink.SqliteSink):
    """The sink with another session."""

    def __init__(self, path: str, session: type[sqlite_sink.SqliteSession]) -> None:
        super().__init__(path)
        self.session = session

    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> sqlite_sink.SqliteSession:  # noqa: ARG002
        return self.session(self.path, pipeline)


class LedgerFirst(sqlite_sink.SqliteSession):
    """Commits the ledger before there are rows."""

    def plan_write(self, micro_batch: MicroBatch, rows: Any, *, run: int) -> Any:
        self.write_ledger(micro_batch)
        self.connection.commit()
        self.read = self.kept()
        return super().plan_write(micro_batch, rows, run=run)


class LedgerApart(sqlite_sink.SqliteSession):
    """Commits rows, and then the ledger in another transaction."""

    def prepare(self, results: Results) -> int:
        rows = super().prepare(results)
        self.connection.commit()
        return int(rows)


class OwnerUnchecked(sqlite_sink.SqliteSession):
    """Goes on whoever owns the pipeline."""

    def own(self) -> None:
        self.owns = False
        super().own()


class MovedLedgerUnchecked(sqlite_sink.SqliteSession):
    """Does not see that the ledger has changed since it was read."""

    def lock(self, *, is_checked: bool) -> None:  # noqa: ARG002
        super().lock(is_checked=False)


def stage_together(path: str, run: int, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return sqlite_sink.stage_rows(path, Task(number=task.number, attempt_id=1000 * run + task.number), batches)


class SharedStaging(sqlite_sink.SqliteSession):
    """All attempts of a task write to one place, and nobody counts."""

    def plan_write(self, micro_batch: MicroBatch, rows: Any, *, run: int) -> WritePlan:
        plan: WritePlan = super().plan_write(micro_batch, rows, run=run)
        task = partial(stage_together, self.path, next(_numbers))
        return replace(plan, stages=(replace(plan.stages[0], task=task),))

    def prepare(self, results: Results) -> int:
        count = "SELECT count(*) FROM staging WHERE attempt = ?"
        rows = [self.connection.execute(count, (row["attempt"],)).fetchone()[0] for row in results]
        found = [{"attempt": row["attempt"], "rows": number} for row, number in zip(results, rows, strict=True)]
        return int(super().prepare(found))


@dataclass(frozen=True, slots=True)
class Mistake:
    """One of them: the check of `check_sink` that is about it, and the cell that is BROKEN with this sink."""

    session: type[sqlite_sink.SqliteSession]
    wrong: str
    check: str
    cell: str

    @property
    def name(self) -> str:
        return self.session.__name__

    def line(self) -> str:
        """As docs/DRILL_MUTATIONS.md has it."""
        return f"| {self.name} | {self.wrong} | `check_sink`: {self.check} | `{self.cell}` |"


KILLED = "spark-delta.exactly-once.driver-killed-at-rows-written"
REPLACED = "spark-delta.exactly-once.second-driver-at-opened"
FAILED = "spark-delta.exactly-once.task-failed-after-its-rows"
MISTAKES = (
    Mistake(LedgerFirst, "the ledger is committed before there are rows", "deaths", KILLED),
    Mistake(LedgerApart, "rows and ledger are committed apart", "deaths", KILLED),
    Mistake(OwnerUnchecked, "a driver goes on whoever owns the pipeline", "owners", REPLACED),
    Mistake(MovedLedgerUnchecked, "a ledger that has changed since it was read is not noticed", "owners", REPLACED),
    Mistake(SharedStaging, "all attempts of a task write to one place, and nobody counts", "attempts", FAILED),
)
