"""One micro-batch, from rows to a commit, in the order that its guarantee needs.

- EXACTLY_ONCE: own, read the ledger, open, write rows, write offsets, commit: rows and offsets in one transaction.
- AT_LEAST_ONCE: write rows, then the ledger. A crash in between writes the rows again.
- AT_MOST_ONCE: write the ledger, then rows, and never a row twice. A crash in between loses the rows.

Keeps: S1 to S7, S9 and S10 of docs/DESIGN.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, assert_never

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from semel.errors import ConfigError, FencedError, OutcomeUnknownError, SemelError
from semel.guarantee import Guarantee
from semel.sinks.arrivals import SUMMARY
from semel.sinks.base import CommitStep, MicroBatch, OnStep, Written, check_written
from semel.sinks.kafka import ANONYMOUS, KafkaSession, LedgerMissing, Partitioning
from semel.sinks.kafka_rows import RowWriter, encode_rows, produce_encoded, write_source, write_spread
from semel.sinks.ledger import Plan, plan_micro_batch
from semel.spark.arrow_limits import limited_by_rows
from semel.spark.attempts import JobWatch, SecondAttemptError, first_attempt_only
from semel.spark.bare_scan import BareScan
from semel.spark.workers import settle_worker
from semel.wire.produce import ProducerIdentity

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("semel.spark")

RUNS_MAX = 4
# Words in the text of an error, since Spark hands on a task's error as text: wrong rows or settings stay wrong.
FINAL = ("ConfigError", "MESSAGE_TOO_LARGE", "INVALID_RECORD", "AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION")
SMALL_ROWS_MAX = 20_000
ENCODED_DDL = "writer int, target int, task int, number long, total long, piece binary"
RESULT_DDL = "task int, target int, records long, row_bytes_max long"

Batches = Iterator["pa.RecordBatch"]
Read = Callable[[Batches], Batches]


def _as_given(batches: Batches) -> Batches:
    return batches


def _encode_task(writer: RowWriter, read: Read, batches: Batches) -> Batches:
    settle_worker()
    context = TaskContext.get()
    return encode_rows(writer, context.partitionId() if context else 0, read(batches))


def _produce_task(writer: RowWriter, batches: Batches) -> Batches:
    settle_worker()
    return produce_encoded(writer, first_attempt_only(), batches)


def _spread_task(writer: RowWriter, batches: Batches) -> Batches:
    settle_worker()
    return write_spread(writer, first_attempt_only(), batches)


def _source_task(writer: RowWriter, batches: Batches) -> Batches:
    settle_worker()
    return write_source(writer, first_attempt_only(), batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchRun:
    """Everything one run needs."""

    session: KafkaSession
    micro_batch: MicroBatch
    rows: DataFrame
    on_step: OnStep
    rows_expected: int | None
    may_run_again: Callable[[], bool]
    scan: BareScan | None = None
    """What `rows` is made of, if it is the source and nothing else."""

    def execute(self) -> int:
        """Carry the micro-batch out; returns how many rows were written, 0 when it was done before."""
        match self.micro_batch.guarantee:
            case Guarantee.EXACTLY_ONCE:
                return self._exactly_once()
            case Guarantee.AT_LEAST_ONCE:
                return self._at_least_once()
            case Guarantee.AT_MOST_ONCE:
                return self._at_most_once()
            case _:
                assert_never(self.micro_batch.guarantee)

    # --- exactly once

    def _exactly_once(self) -> int:
        for run in range(1, RUNS_MAX + 1):
            producer = self.session.own()
            self.on_step(CommitStep.OWNED)
            ledger = self.session.read_ledger(self.micro_batch)
            self.on_step(CommitStep.LEDGER_READ)
            if self._plan(ledger_is_empty=ledger.is_empty, decide=partial(plan_micro_batch, ledger)) is Plan.SKIP:
                log.info("micro-batch %d of %s was committed before", self.micro_batch.id, self.micro_batch.pipeline)
                return 0
            if ledger.offsets == self.micro_batch.offsets and self.rows.isEmpty():
                return 0
            try:
                return self._commit_rows(producer, run)
            except (SemelError, PySparkException, Py4JJavaError) as error:
                self._recover(error, run)
        raise AssertionError("the last run raises")

    def _plan(self, *, ledger_is_empty: bool, decide: Callable[[MicroBatch], Plan]) -> Plan:
        missing = self.session.sink.ledger_missing
        if ledger_is_empty and self.micro_batch.is_replay and missing is not LedgerMissing.STOP:
            return Plan.SKIP if missing is LedgerMissing.SKIP else Plan.RUN
        return decide(self.micro_batch)

    def _commit_rows(self, producer: ProducerIdentity, run: int) -> int:
        self.session.add_targets()
        self.on_step(CommitStep.OPENED)
        with self._watch() as watch:
            total = self._write(producer, self._partitioning(run), may_fail=lambda: run == 1 and self.may_run_again())
        watch.check_single_attempts()
        self.on_step(CommitStep.ROWS_WRITTEN)
        self.session.add_offsets(self.micro_batch)
        self.on_step(CommitStep.OFFSETS_WRITTEN)
        self.session.commit()
        self.on_step(CommitStep.COMMITTED)
        return total

    def _partitioning(self, run: int) -> Partitioning:
        """As declared, but where a source partition was read by two tasks, one has to write it: after a shuffle."""
        declared = self.session.sink.partitioning
        return Partitioning.KEYED if declared is Partitioning.SOURCE and run > 1 else declared

    def _recover(self, error: SemelError | PySparkException | Py4JJavaError, run: int) -> None:
        """Undo a run that failed and decide whether there is another."""
        if isinstance(error, OutcomeUnknownError):
            raise error
        try:
            self.session.abort()
        except SemelError as second:
            raise error from second
        if _is_fenced(error) and not self.session.has_timed_out:
            raise FencedError(
                f"pipeline {self.micro_batch.pipeline!r}: a newer driver has taken over",
                code=90,
                because="it took a newer producer epoch for the same pipeline name; this one writes nothing any more",
            ) from error
        if run == RUNS_MAX or _is_final(error) or not self.may_run_again():
            raise error
        log.warning("micro-batch %d is run again (%d of %d): %s", self.micro_batch.id, run, RUNS_MAX, error)

    # --- the other two guarantees: the same functions in another order

    def _at_least_once(self) -> int:
        ledger = self.session.read_ledger(self.micro_batch)
        self.on_step(CommitStep.LEDGER_READ)
        if not ledger.is_empty and plan_micro_batch(ledger, self.micro_batch) is Plan.SKIP:
            return 0
        with self._watch():
            total = self._write(ANONYMOUS)
        self.on_step(CommitStep.ROWS_WRITTEN)
        self.session.commit_ledger(self.micro_batch)
        self.on_step(CommitStep.COMMITTED)
        return total

    def _at_most_once(self) -> int:
        """The ledger first, in a transaction of its own: of two drivers only one gets to write the rows."""
        self.session.own()
        self.on_step(CommitStep.OWNED)
        ledger = self.session.read_ledger(self.micro_batch)
        self.on_step(CommitStep.LEDGER_READ)
        if not ledger.is_empty and plan_micro_batch(ledger, self.micro_batch) is Plan.SKIP:
            return 0
        producer = self.session.own_nothing()
        try:
            self.session.add_offsets(self.micro_batch)
            self.on_step(CommitStep.OFFSETS_WRITTEN)
            self.session.commit()
        except SemelError as error:
            self._recover(error, RUNS_MAX)
        self.on_step(CommitStep.COMMITTED)
        with self._watch():
            total = self._write(producer)
        self.on_step(CommitStep.ROWS_WRITTEN)
        return total

    # --- rows

    def _watch(self) -> JobWatch:
        return JobWatch(self.rows.sparkSession.sparkContext)

    def _write(
        self,
        producer: ProducerIdentity,
        partitioning: Partitioning | None = None,
        *,
        may_fail: Callable[[], bool] = lambda: False,
    ) -> int:
        writers = self._writers()
        writer = self.session.writer(self.micro_batch, producer, writers)
        chosen = partitioning or self.session.sink.partitioning
        if chosen is Partitioning.KEYED and writers > 1:
            return self._check(self._collect(self._shuffled(writer), by_rows=self.scan is None and may_fail()))
        # A single task writes to every partition, so nothing has to be shuffled to its writer.
        tasks_max = writers if writers == 1 or chosen is Partitioning.SPREAD else None
        task = partial(_spread_task if chosen is Partitioning.SPREAD else _source_task, writer)
        if self.scan is not None:
            return self._check(self.scan.run(self.rows.sparkSession.sparkContext, task, tasks_max))
        rows = self._ordered(self.rows if tasks_max is None else self.rows.coalesce(tasks_max), writers)
        return self._check(self._collect(rows.mapInArrow(task, RESULT_DDL), by_rows=writers > 1 and may_fail()))

    def _shuffled(self, writer: RowWriter) -> DataFrame:
        """Encode where the rows are, and write each partition in one task."""
        read: Read = _as_given if self.scan is None else self.scan.read
        rows = self._ordered(self.rows, writer.writers)
        if self.scan is not None:
            rows = self.scan.task_numbers(self.rows.sparkSession)
        encoded = rows.mapInArrow(partial(_encode_task, writer, read), ENCODED_DDL)
        return encoded.repartitionById(writer.writers, "writer").mapInArrow(partial(_produce_task, writer), RESULT_DDL)

    def _check(self, found: list[Row]) -> int:
        """Hold S2, and tell Spark what it has not seen."""
        encoded_rows = sum(row.records for row in found if row.target == SUMMARY)
        targets = list(self.session.targets)
        written = [
            Written(task=row.task, target=targets[row.target], records=row.records)
            for row in found
            if row.target != SUMMARY
        ]
        total = check_written(encoded_rows, written)
        if self.scan is not None:
            self.scan.tell_rows_read(total)
        return total

    def _ordered(self, rows: DataFrame, writers: int) -> DataFrame:
        """With `order_by`: all rows of a key in one task, and sorted there; each task's order is kept from then on."""
        column = self.session.sink.order_by
        if column is None:
            return rows
        together = rows if writers == 1 else rows.repartition(writers, "key")
        return together.sortWithinPartitions(column)

    def _collect(self, result: DataFrame, *, by_rows: bool) -> list[Row]:
        """Run the job. What is known of the rows' size counts for one run: after a failure it is forgotten."""
        known, self.session.row_bytes_max = self.session.row_bytes_max, 0
        with limited_by_rows(result.sparkSession, known if by_rows else 0):
            found = result.collect()
        self.session.row_bytes_max = max((row.row_bytes_max for row in found), default=0)
        return found

    def _writers(self) -> int:
        """How many tasks write: one for a small micro-batch, else as many as there are cores and partitions."""
        targets = self.session.targets
        limit = targets.fewest if self.session.sink.partitioning is Partitioning.SPREAD else targets.total
        if self.rows_expected is not None and self.rows_expected <= SMALL_ROWS_MAX:
            return 1
        return max(1, min(limit, self.rows.sparkSession.sparkContext.defaultParallelism))


def _is_final(error: Exception) -> bool:
    """Whether another run would end the same way."""
    return isinstance(error, ConfigError) or any(word in str(error) for word in FINAL)


def _is_fenced(error: Exception) -> bool:
    """Whether a task said so; Spark hands its error on as text."""
    return isinstance(error, FencedError) or "FencedError" in str(error)


__all__ = ["MicroBatchRun", "SecondAttemptError"]
