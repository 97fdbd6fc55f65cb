"""Spark's half of a micro-batch: it runs the stages that a sink has planned, on the rows that Spark has.

`semel.sinks.commit` has the order of steps, and the sink says what the stages do. Here Spark runs them, and only those
attempts of a task write that may (E1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from semel.errors import SinkError
from semel.sinks.base import (
    Attempts,
    Batches,
    Column,
    MicroBatch,
    OnStep,
    Results,
    RowsAhead,
    SinkSession,
    Stage,
    StageTask,
    Task,
    WritePlan,
)
from semel.sinks.commit import Commit
from semel.spark.arrow_limits import limited_by_rows
from semel.spark.attempts import JobWatch, SecondAttemptError, first_attempt_only
from semel.spark.bare_scan import BareScan
from semel.spark.row_schema import columns_of
from semel.spark.stopping import short
from semel.spark.workers import settle_worker

Read = Callable[[Batches], Batches]


@dataclass(frozen=True, slots=True, kw_only=True)
class _InTask:
    """What a worker runs for a stage; picklable."""

    work: StageTask
    is_guarded: bool
    """Whether only the first attempt may go on."""
    read: Read | None = None

    def __call__(self, batches: Batches) -> Batches:
        settle_worker()
        number = first_attempt_only() if self.is_guarded else None
        context = TaskContext.get()
        if context is None:
            raise SinkError("rows of a sink can only be written inside a Spark task")
        task = Task(number=context.partitionId() if number is None else number, attempt_id=context.taskAttemptId())
        return self.work(task, batches if self.read is None else self.read(batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchRun:
    """Everything one run needs; the `Work` of its commit."""

    session: SinkSession
    micro_batch: MicroBatch
    rows: DataFrame
    on_step: OnStep
    columns: tuple[Column, ...] = ()
    """Of `rows`, where the caller knows them; Spark is asked otherwise."""
    rows_expected: int | None
    may_run_again: Callable[[], bool]
    is_stateful: Callable[[], bool] = lambda: False
    checkpoint: str = ""
    scan: BareScan | None = None
    """What `rows` is made of, if it is the source and nothing else."""

    def execute(self) -> int:
        """Carry the micro-batch out; returns how many rows were written, 0 when it was done before."""
        return Commit(session=self.session, micro_batch=self.micro_batch, work=self, on_step=self.on_step).execute()

    # --- what `commit` asks

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that Spark raises when a job failed."""
        return (PySparkException, Py4JJavaError)

    def ahead(self) -> RowsAhead:
        """What is known of the rows before Spark reads them."""
        cores = self.rows.sparkSession.sparkContext.defaultParallelism
        return RowsAhead(columns=self.columns or columns_of(self.rows.schema), expected=self.rows_expected, cores=cores)

    def has_no_rows(self) -> bool:
        """Whether there is no row at all; Spark stops at the first one."""
        return self.rows.isEmpty()

    def drop_rows(self) -> int:
        """Compute every row, for its effect on the state, and write none."""
        return self.rows.count()

    def wrote(self, rows: int) -> None:
        """Add the rows that Spark has not read itself to the query's progress."""
        if self.scan is not None:
            self.scan.tell_rows_read(rows)

    def words_of(self, error: Exception) -> str:
        """The error's text without Java's stack frames."""
        return short(str(error))

    def carry_out(self, plan: WritePlan) -> Results:
        """Run the job; refused when attempts wrote that may not."""
        if plan.attempts is Attempts.ANY:
            return self._run_stages(plan)
        # A task cannot see that its stage runs again; Spark's status of the job tells afterwards.
        with JobWatch(self.rows.sparkSession.sparkContext) as watch:
            results = self._run_stages(plan)
        if plan.attempts is Attempts.SINGLE:
            watch.check_single_attempts()
        return results

    # --- the job

    def _run_stages(self, plan: WritePlan) -> Results:
        first, *more = plan.stages
        is_guarded = plan.attempts is not Attempts.ANY
        if self.scan is None:
            # Only the last stage writes. A stage before a shuffle may run as often as Spark likes.
            rows = self._ordered(plan).mapInArrow(
                _InTask(work=first.task, is_guarded=is_guarded and not more), first.gives
            )
        elif not more:
            task = _InTask(work=first.task, is_guarded=is_guarded)
            found = self.scan.run(self.rows.sparkSession.sparkContext, task, first.tasks)
            return [row.asDict() for row in found]
        else:
            task = _InTask(work=first.task, is_guarded=False, read=self.scan.read)
            rows = self.scan.task_numbers(self.rows.sparkSession).mapInArrow(task, first.gives)
        for stage in more:
            rows = self._shuffled(rows, stage).mapInArrow(_InTask(work=stage.task, is_guarded=is_guarded), stage.gives)
        return self._collect(rows, plan)

    def _shuffled(self, rows: DataFrame, stage: Stage) -> DataFrame:
        assert stage.tasks is not None, "a shuffle has a number of tasks"
        assert stage.by is not None, "and a column that says which"
        return rows.repartitionById(stage.tasks, stage.by)

    def _ordered(self, plan: WritePlan) -> DataFrame:
        """If asked for, all rows of a key in one task, and sorted there; each task's order is kept from then on."""
        tasks = plan.stages[0].tasks
        # Fewer tasks without a shuffle: neighbours are joined, so the order within them stays.
        rows = self.rows if tasks is None else self.rows.coalesce(tasks)
        if plan.order is None:
            return rows
        together = rows if plan.order.tasks == 1 else rows.repartition(plan.order.tasks, plan.order.key)
        return together.sortWithinPartitions(plan.order.by)

    def _collect(self, result: DataFrame, plan: WritePlan) -> Results:
        """Count rows in place of bytes where rows are known to be small and a run that fails is not the last."""
        # A run that is the last one must not fail because rows were larger than guessed.
        is_counted = plan.row_bytes_max > 0 and self.scan is None and self.may_run_again()
        with limited_by_rows(result.sparkSession, plan.row_bytes_max if is_counted else 0):
            return [row.asDict() for row in result.collect()]


__all__ = ["MicroBatchRun", "SecondAttemptError"]
