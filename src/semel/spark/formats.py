"""`format("semel-postgres")` and `format("semel-delta")`: the staged sinks as Spark's own data sources.

    df.writeStream.format("semel-postgres").option("dsn", "…").option("table", "orders").option("pipeline", "orders") \
      .option("guarantee", "exactly_once").option("checkpointLocation", "…").start()

For Spark Connect and Declarative Pipelines, where `foreachBatch` has no driver to own anything. Spark finds the formats
by itself (`pyspark_semel_postgres`, `pyspark_semel_delta`). Method names here are Spark's.

How Spark calls them, for each micro-batch: it makes a data source and asks it for a writer, which is pickled to the
tasks; then a data source that it has kept since the first micro-batch is asked for another one, which commits. Both run
in Python processes beside the driver, without its JVM.

Keeps: E24 `abort` undoes nothing, since Spark calls it also after a commit that happened or may be under way; what was
       staged is removed by the next commit, or is no part of the output.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from semel.errors import ConfigError, SinkError
from semel.sinks.base import Column, MicroBatch, OnStep, StageTask, Task, ignore_step
from semel.sinks.run_ids import checked_run, run_query_id
from semel.spark.format_options import DELTA, POSTGRES, Format, WriteOptions, parse_options
from semel.spark.local_checkpoint import LocalCheckpoint
from semel.spark.row_schema import columns_of
from semel.spark.staged_work import StagedWork, TaskMessage, commit_staged, told_by
from semel.spark.stopping import QUERY_ID
from semel.spark.workers import settle_worker, without_traceback

if TYPE_CHECKING:
    import pyarrow as pa

MICRO_BATCH_ID = "streaming.sql.batchId"
Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What tasks do, under a name that no other job has."""

    name: str
    task: StageTask

    @classmethod
    def of(cls, options: WriteOptions, columns: tuple[Column, ...], run: MicroBatch | None = None) -> Staging:
        """Look at the output, refuse what does not fit, and say what tasks do."""
        for column in options.sink.check_columns(columns):
            if column.made_by:
                raise ConfigError(
                    f"column {column.name!r} is nested, and a data source gets rows as they are",
                    you_want=f'.withColumn("{column.name}", expr("{column.made_by}"))',
                )
        name = uuid.uuid4().hex
        session = options.sink.open(options.pipeline)
        try:
            if run is not None:
                session.prepare_run(run)
            return cls(name=name, task=session.staging_task(columns, name))
        finally:
            session.let_go()

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Run in a task."""
        settle_worker()
        context = TaskContext.get()
        if context is None:
            raise SinkError("rows of a sink can only be written inside a Spark task")
        task = Task(number=context.partitionId(), attempt_id=context.taskAttemptId())
        with without_traceback():
            results = [row for batch in self.task(task, batches) for row in batch.to_pylist()]
        return TaskMessage(
            staging=self.name,
            results=results,
            # A task knows its query and micro-batch; the process that commits is told neither, and compares.
            query_id=context.getLocalProperty(QUERY_ID) or "",
            micro_batch_id=int(context.getLocalProperty(MICRO_BATCH_ID) or 0),
        )


@dataclass(kw_only=True)
class StreamWriter(DataSourceStreamArrowWriter):
    """Stages in tasks, or commits beside the driver; the one that commits has no staging of its own."""

    options: WriteOptions
    columns: tuple[Column, ...]
    on_step: OnStep
    staging: Staging | None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Run in a task."""
        assert self.staging is not None, "tasks get the writer that was made for them"
        return self.staging.write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Commit a micro-batch; called again, or after a restart, it finds it in the ledger."""
        with without_traceback():
            told = told_by(messages)
            checkpoint = LocalCheckpoint.of(self.options.checkpoint)
            query_id = checkpoint.query_id
            if any((one.query_id, one.micro_batch_id) != (query_id, batchId) for one in told):
                raise SinkError(
                    f"the checkpoint {checkpoint.folder} is that of query {query_id}, and rows of micro-batch {batchId}"
                    " were staged by another",
                    because="the ledger is written with what the checkpoint says of the micro-batch",
                )
            # Before the session is opened: a checkpoint of another pipeline must be refused before anybody is fenced.
            checkpoint.claim(self.options.pipeline, batchId)
            micro_batch = checkpoint.log.micro_batch(
                self.options.pipeline, query_id, batchId, self.options.guarantee, started_ms=0
            )
            work = StagedWork(
                columns=self.columns,
                results=[row for one in told for row in one.results],
                checkpoint=checkpoint.folder,
                has_state=lambda: checkpoint.is_stateful,
            )
            commit_staged(self.options, micro_batch, told, work, self.on_step)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Undo nothing (E24)."""


@dataclass(kw_only=True)
class BatchWriter(DataSourceArrowWriter):
    """Stages in tasks, and is sent back to the driver to commit."""

    options: WriteOptions
    columns: tuple[Column, ...]
    on_step: OnStep
    run: MicroBatch
    staging: Staging

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Run in a task."""
        return self.staging.write(iterator)

    def commit(self, messages: Messages) -> None:
        """Commit the run; a run that was written before is not written again."""
        with without_traceback():
            told = told_by(messages)
            work = StagedWork(columns=self.columns, results=[row for one in told for row in one.results])
            commit_staged(self.options, self.run, told, work, self.on_step)

    def abort(self, messages: Messages) -> None:
        """Undo nothing (E24)."""


class WritingSource(DataSource):
    """What both formats share."""

    kind: ClassVar[Format]
    on_step: ClassVar[Callable[..., None]] = staticmethod(ignore_step)
    is_kept = False
    """Whether Spark has kept it since an earlier moment: then its writers commit, and tasks have another."""

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return cls.kind.name

    def __getstate__(self) -> dict[str, Any]:
        """Only what Spark keeps is pickled."""
        # What Spark keeps, it keeps pickled: a source that comes out of a pickle is the kept one.
        return {**self.__dict__, "is_kept": True}

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """For `df.writeStream`; tasks get a writer that knows what to do, the one that commits looks by itself."""
        with without_traceback():
            options = self._options(streaming=True, overwrite=overwrite)
            # Only for its check: a checkpoint that this process cannot read is refused before any task has run.
            LocalCheckpoint.of(options.checkpoint)
            columns = columns_of(schema)
            staging = None if self.is_kept else Staging.of(options, columns)
            return StreamWriter(options=options, columns=columns, on_step=type(self).on_step, staging=staging)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        with without_traceback():
            options = self._options(streaming=False, overwrite=overwrite)
            columns = columns_of(schema)
            run = checked_run(options.run_id, None, now_ms=0)
            job = MicroBatch(
                pipeline=options.pipeline,
                query_id=run_query_id(run),
                id=0,
                guarantee=options.guarantee,
                offsets=None,
                run=run,
            )
            staging = Staging.of(options, columns, job)
            return BatchWriter(options=options, columns=columns, on_step=type(self).on_step, run=job, staging=staging)

    def _options(self, *, streaming: bool, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ConfigError(
                f"format {self.name()!r} does not take the place of what is there",
                you_wrote='.outputMode("complete")' if streaming else '.mode("overwrite")',
                you_want='.outputMode("append")' if streaming else '.mode("append")',
            )
        return parse_options(self.options, self.kind, streaming=streaming)

    def schema(self) -> NoReturn:
        """For a read without a schema."""
        self._refuse_reading()

    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002
        """For `spark.read`."""
        self._refuse_reading()

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802, ARG002
        """For `spark.readStream`."""
        self._refuse_reading()

    def _refuse_reading(self) -> NoReturn:
        with without_traceback():
            raise ConfigError(
                f"format {self.name()!r} writes; it does not read", you_want='format("semel") reads from Kafka'
            )


class PostgresFormat(WritingSource):
    """`format("semel-postgres")`."""

    kind = POSTGRES


class DeltaFormat(WritingSource):
    """`format("semel-delta")`."""

    kind = DELTA
