"""`LocalWork`: what Spark does for a sink, done in this process, with attempts as a test wants them.

Each batch is a task of the first stage. Where a plan has a second one, rows go to its tasks by the column that the plan
names, as Spark's shuffle would bring them. Where any attempt may write, a task can be run several times: the last
attempt is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from semel.sinks.base import Attempts, Column, Results, RowsAhead, Stage, Task, WritePlan

# Spark never gives two attempts the same id, whatever job they are of, and sinks name their staging after it.
_attempts = count(1)


@dataclass(kw_only=True)
class LocalWork:
    """The rows of a micro-batch, without Spark."""

    batches: Sequence[pa.RecordBatch]
    columns: tuple[Column, ...]
    attempts: int = 1
    has_state: bool = False
    failures: list[Exception] = field(default_factory=list)
    """What the next jobs fail with, after their tasks have written."""
    before_results: Callable[[], None] = lambda: None
    checkpoint: str = ""
    errors: tuple[type[Exception], ...] = ()
    written: int = 0
    dropped: int = 0

    def ahead(self) -> RowsAhead:
        """Two cores, and no idea how many rows there are."""
        return RowsAhead(columns=self.columns, expected=None, cores=2)

    def carry_out(self, plan: WritePlan) -> Results:
        """Run the stages, one task after another."""
        may_repeat = plan.attempts is Attempts.ANY
        first, *more = plan.stages
        given = [self._run(first, number, [batch], may_repeat) for number, batch in enumerate(self.batches)]
        for stage in more:
            assert stage.tasks is not None, "a shuffle has a number of tasks"
            rows = [batch for batches in given for batch in batches]
            shares = [_share(rows, stage, number) for number in range(stage.tasks)]
            given = [self._run(stage, number, share, may_repeat) for number, share in enumerate(shares)]
        self.before_results()
        # After the tasks: what they have staged or sent is there, and the sink has to deal with it.
        if self.failures:
            raise self.failures.pop(0)
        return [row for batches in given for batch in batches for row in batch.to_pylist()]

    def _run(self, stage: Stage, number: int, batches: list[pa.RecordBatch], may_repeat: bool) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        # All attempts write; the result of one is handed on, as Spark does.
        for _ in range(self.attempts if may_repeat else 1):
            found = list(stage.task(Task(number=number, attempt_id=next(_attempts)), iter(batches)))
        return found

    def wrote(self, rows: int) -> None:
        """Count."""
        self.written += rows

    def has_no_rows(self) -> bool:
        """Look."""
        return not any(batch.num_rows for batch in self.batches)

    def drop_rows(self) -> int:
        """Count what is only computed."""
        rows = sum(batch.num_rows for batch in self.batches)
        self.dropped += rows
        return rows

    def is_stateful(self) -> bool:
        """As the test says."""
        return self.has_state

    def may_run_again(self) -> bool:
        """A state may be computed once."""
        return not self.has_state

    def words_of(self, error: Exception) -> str:
        """Its text."""
        return str(error)


def _share(batches: list[pa.RecordBatch], stage: Stage, number: int) -> list[pa.RecordBatch]:
    """The rows that a shuffle would bring to a task of this stage."""
    assert stage.by is not None, "a shuffle has a column that says where rows go"
    found: list[pa.RecordBatch] = []
    for batch in batches:
        column: Any = batch.column(batch.schema.get_field_index(stage.by))
        wanted = np.flatnonzero(np.asarray(column.to_numpy()) == number)
        if len(wanted):
            found.append(batch.take(wanted))
    return found
