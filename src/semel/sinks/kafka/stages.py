"""The stages that Spark runs for the Kafka sink, and what the driver learns from the results of their tasks.

Keeps: E1 only first attempts write, since a second would write under the same producer id and epoch, again from
       sequence 0, and brokers would take its batches for retries. E2 what is counted as written was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from semel.errors import SinkError
from semel.sinks.base import Attempts, Batches, Results, RowOrder, Stage, Task, WritePlan
from semel.sinks.kafka.arrivals import SUMMARY
from semel.sinks.kafka.rows import ENCODED, RESULT, RowWriter, encode_rows, produce_encoded, write_source, write_spread
from semel.sinks.kafka.targets import Targets
from semel.wire.produce import ProducerIdentity
from semel.wire.topology import TopicPartition

# At least once: without a producer id brokers take a batch that is sent again as a new one.
ANONYMOUS = ProducerIdentity(producer_id=-1, producer_epoch=-1)


class Partitioning(StrEnum):
    """How rows find their partition; see `rows`."""

    KEYED = "keyed"
    SPREAD = "spread"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """A function of `rows` with what it needs; picklable."""

    work: Callable[[RowWriter, int, Batches], Batches]
    writer: RowWriter

    def __call__(self, task: Task, batches: Batches) -> Batches:
        return self.work(self.writer, task.number, batches)


def plan_stages(
    writer: RowWriter,
    partitioning: Partitioning,
    *,
    order_by: str | None,
    is_transaction: bool,
    row_bytes_max: int,
) -> WritePlan:
    """One stage; two where rows of several tasks go to the writer of their partition."""
    writers = writer.writers
    # Without a transaction nothing can be undone: then rows that a stage wrote twice are there twice, or refused.
    attempts = Attempts.SINGLE if is_transaction else Attempts.FIRST
    order = None if order_by is None else RowOrder(key="key", by=order_by, tasks=writers)
    if partitioning is Partitioning.KEYED and writers > 1:
        encode = Stage(task=_Writing(work=encode_rows, writer=writer), gives=ENCODED)
        produce = Stage(task=_Writing(work=produce_encoded, writer=writer), gives=RESULT, tasks=writers, by="writer")
        return WritePlan(stages=(encode, produce), attempts=attempts, order=order, row_bytes_max=row_bytes_max)
    # A single task writes to every partition, so nothing has to be shuffled to its writer.
    # With `source` the rows stay in the tasks that read them, as many as there are.
    is_limited = writers == 1 or partitioning is Partitioning.SPREAD
    work = write_spread if partitioning is Partitioning.SPREAD else write_source
    write = Stage(task=_Writing(work=work, writer=writer), gives=RESULT, tasks=writers if is_limited else None)
    return WritePlan(stages=(write,), attempts=attempts, order=order, row_bytes_max=row_bytes_max if writers > 1 else 0)


# --- what the tasks reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one task wrote to one partition."""

    task: int
    target: TopicPartition
    records: int


def largest_row(results: Results) -> int:
    """How large the largest row was; 0 when nobody said."""
    return max((row["row_bytes_max"] for row in results), default=0)


def counted_rows(results: Results, targets: Targets) -> int:
    """Count the rows that were written, and check that every one was acknowledged (E2)."""
    partitions = list(targets)
    encoded = sum(row["records"] for row in results if row["target"] == SUMMARY)
    return check_written(
        encoded,
        (
            Written(task=row["task"], target=partitions[row["target"]], records=row["records"])
            for row in results
            if row["target"] != SUMMARY
        ),
    )


def check_written(encoded: int, written: Iterable[Written]) -> int:
    """Check E2: every row was acknowledged, and no partition had two writers; returns the count."""
    rows = list(written)
    writers: dict[TopicPartition, int] = {}
    for row in rows:
        other = writers.setdefault(row.target, row.task)
        # Each task counts sequences from 0 in every partition.
        if other != row.task:
            raise SinkError(
                f"tasks {other} and {row.task} both wrote to {row.target}",
                because="sequences of two writers under one producer id look like retries",
                you_want='partitioning="keyed", which gives each partition one writer',
            )
    total = sum(row.records for row in rows)
    # Rows that no broker has acknowledged: a shuffle lost some, or a task was counted without its rows.
    if total != encoded:
        raise SinkError(f"{encoded} rows were encoded, but {total} acknowledged")
    return total
