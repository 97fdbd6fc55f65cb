"""A micro-batch whose rows Spark's own writers have staged: the commit of it, by the same order of steps as ever.

Spark runs the tasks first, and only then asks for a commit, in another process and without a word on the offsets. What
a task staged comes back in its message. So the steps of `sinks.commit` are all run at the end: own, read the ledger,
decide, take what was staged, write the ledger, commit. A micro-batch that the output holds is not written again, and
what was staged for it is dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from semel.errors import SinkError
from semel.sinks.base import Column, MicroBatch, OnStep, Results, RowsAhead, WritePlan
from semel.sinks.commit import Commit
from semel.spark.format_options import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(WriterCommitMessage):
    """What a task that counts has staged, and for which micro-batch as the task knew it."""

    staging: str
    results: Results
    query_id: str = ""
    micro_batch_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWork:
    """The `Work` of a commit whose tasks are done."""

    columns: tuple[Column, ...]
    results: Results
    checkpoint: str = ""
    has_state: Callable[[], bool] = lambda: False
    errors: tuple[type[Exception], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are staged."""
        return sum(int(one["records"]) for one in self.results)

    def ahead(self) -> RowsAhead:
        """Columns and count of the staged rows; no task is planned from them, since all tasks are done."""
        return RowsAhead(columns=self.columns, expected=self.rows, cores=1)

    def carry_out(self, plan: WritePlan) -> Results:  # noqa: ARG002
        """Return what the tasks reported; they have written everything already."""
        return self.results

    def wrote(self, rows: int) -> None:
        """Do nothing: Spark counts these rows by itself."""

    def has_no_rows(self) -> bool:
        """Look at what the tasks reported."""
        return self.rows == 0

    def drop_rows(self) -> int:
        """Do nothing but count: Spark has computed the rows, so its state has their effect already."""
        return self.rows

    def is_stateful(self) -> bool:
        """Whether the query keeps state, as its checkpoint says."""
        return self.has_state()

    def may_run_again(self) -> bool:
        """Always: nothing is computed again, another run takes the same staged rows."""
        return True

    def words_of(self, error: Exception) -> str:
        """The error's text."""
        return str(error)


def told_by(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    """What all tasks of a job reported; refused when one of them did not, or they are not of one job."""
    found = [one for one in messages if isinstance(one, TaskMessage)]
    if len(found) < len(messages) or len({one.staging for one in found}) > 1:
        raise SinkError(
            f"Spark asks for a commit with what {len(found)} of {len(messages)} tasks of one job have staged",
            because="rows of the others would be missing",
        )
    return found


def commit_staged(
    options: WriteOptions,
    micro_batch: MicroBatch,
    told: Sequence[TaskMessage],
    work: StagedWork,
    on_step: OnStep,
) -> None:
    """Make the staged rows visible, once."""
    session = options.sink.open(options.pipeline)
    try:
        # A micro-batch without rows has no tasks, and stages nothing.
        if told:
            session.expect(told[0].staging)
        written = Commit(session=session, micro_batch=micro_batch, work=work, on_step=on_step).execute()
        # Skipped, since the ledger has it. What a sink does not take into a transaction stays no part of the output.
        if not written and work.rows:
            session.drop(told[0].staging)
            # This process is a worker, whose loggers nobody has set up; what it writes here reaches the driver's log.
            what = f"micro-batch {micro_batch.id}" if micro_batch.run is None else f"run {micro_batch.run.id!r}"
            sys.stderr.write(
                f"semel: pipeline {options.pipeline}: the output holds {what}; {work.rows} staged rows are dropped\n"
            )
    finally:
        session.let_go()
