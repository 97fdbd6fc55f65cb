"""`format("semel")`: Kafka as a Spark source, with the options and columns of Spark's own Kafka source.

    semel.spark.register(spark)
    spark.readStream.format("semel").option("kafka.bootstrap.servers", "…").option("subscribe", "orders").load()

The driver plans in `stream_plan.py` and `batch_plan.py`, tasks read in `task.py`; this file is what Spark calls, so its
method names are Spark's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from semel.errors import ConfigError
from semel.spark.batch_plan import plan_batch
from semel.spark.offsets import SourceOffsets
from semel.spark.options import SourceOptions, without_effect
from semel.spark.ranges import OffsetRange, Task, plan_tasks
from semel.spark.row_schema import HEADERS, row_schema, wanted_columns
from semel.spark.sizes import RecordSizes
from semel.spark.stream_plan import StreamPlan
from semel.spark.task import read_ranges
from semel.spark.view import KafkaView
from semel.spark.workers import settle_worker, without_traceback

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "semel"
# Options that only a writer has. Spark makes the data source for writers too, and does not say which it is.
OF_WRITERS = ("topic", "checkpointlocation")


class TaskPartition(InputPartition):
    """One task as Spark ships it: its ranges, and all that reading them needs."""

    def __init__(self, ranges: Task, topic_ids: Mapping[str, str], options: SourceOptions) -> None:
        """Keep plain values: they are pickled once per task."""
        super().__init__([tuple(one) for one in ranges])
        # Only ids of this task's topics: the partition is pickled once for each task.
        self.topic_ids = {one.topic: topic_ids[one.topic] for one in ranges if one.topic in topic_ids}
        self.options = options

    def read(self) -> Iterator[pa.RecordBatch]:
        """Run in a task."""
        settle_worker()
        topic_ids = {topic: UUID(text) for topic, text in self.topic_ids.items()}
        return read_ranges([OffsetRange(*one) for one in self.value], topic_ids, self.options)


class SemelBatchReader(DataSourceReader):
    """`spark.read`: from one position to another, fixed when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        """Ask nothing yet."""
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks; one empty task when there is nothing to read, since Spark wants at least one."""
        # Takes nothing over: a batch read drives no pipeline.
        ranges, topic_ids = plan_batch(self._options, KafkaView(self._options))
        tasks = plan_tasks(ranges, self._options.tasks, RecordSizes(self._options).of(ranges))
        return [TaskPartition(task, topic_ids, self._options) for task in tasks or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run in a task."""
        assert isinstance(partition, TaskPartition)
        return partition.read()


class SemelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`; lives on the driver as long as the query, and is pickled to tasks for `read` alone."""

    def __init__(self, options: SourceOptions) -> None:
        """Ask nothing yet."""
        self._options = options

    @cached_property
    def _plan(self) -> StreamPlan:
        # A stream plans where its pipeline goes on, so its driver fences older ones before it reads the ledger.
        return StreamPlan(self._options, KafkaView(self._options, takes_over=True))

    @cached_property
    def _sizes(self) -> RecordSizes:
        return RecordSizes(self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Ship the options, not what the driver remembers."""
        # Spark pickles the reader for every micro-batch. A task has no use for plans and connections.
        return SemelStreamReader, (self._options,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query starts."""
        return self._plan.initial().encode()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxOffsetsPerTrigger` says."""
        limit = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        # Only rows are limited here. Any other limit means "all that is there".
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._plan.latest(SourceOffsets.decode(start), offsets_max).encode()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What the cluster had at the last look, for the query's progress."""
        seen = self._plan.latest_seen
        return SourceOffsets(offsets_next=seen).encode() if seen else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than what is there now."""
        self._plan.set_target()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of a micro-batch."""
        first, last = SourceOffsets.decode(start), SourceOffsets.decode(end)
        if first.initial and last.start is None:
            # The options say where a query starts today, not where that one did: records could be skipped.
            raise ConfigError(
                "the first micro-batch of this checkpoint was planned by Spark's own Kafka source and never finished",
                because="only that source knows where it starts",
                you_want='one run with format("kafka"), which finishes it; then format("semel") goes on',
            )
        ranges = self._plan.ranges(first, last)
        tasks = plan_tasks(ranges, self._options.tasks, self._sizes.of(ranges))
        return [TaskPartition(task, last.topic_ids, self._options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run in a task."""
        assert isinstance(partition, TaskPartition)
        return partition.read()


class SemelDataSource(DataSource):
    """The source that `format("semel")` names."""

    def __init__(self, options: dict[str, str]) -> None:
        """Check the options where they were written: Spark calls this at `.load()`, unless a schema is given."""
        super().__init__(options)
        # A wrong option is the user's affair; the way from Spark's worker into this file would only hide it.
        with without_traceback():
            if any(name.lower() in OF_WRITERS for name in options):
                raise writing_refusal()
            SourceOptions.parse(options, streaming=None)
        # This process is a worker, whose loggers nobody has set up; what it writes here reaches the driver's terminal.
        for name, why in without_effect(options).items():
            sys.stderr.write(f"semel: option {name} has no effect: {why}\n")

    @classmethod
    def name(cls) -> str:
        """The format name."""
        return FORMAT

    def schema(self) -> str:
        """The columns of Spark's Kafka source."""
        flag = str(self.options.get("includeHeaders", "false")).lower()
        return row_schema(include_headers=flag == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return SemelBatchReader(self._options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        return SemelStreamReader(self._options(schema, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        """For `df.write`."""
        with without_traceback():
            raise writing_refusal()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802, ARG002
        """For `df.writeStream`."""
        with without_traceback():
            raise writing_refusal()

    def _options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        # Spark's runner of streams stops a reader that it never got, and only the traceback shows what came before.
        with nullcontext() if streaming else without_traceback():
            columns = wanted_columns(schema)
            options = SourceOptions.parse(self.options, streaming=streaming)
            if options.include_headers and HEADERS not in columns:
                raise ConfigError(
                    "includeHeaders is true and the schema has no column headers",
                    you_want="the column in the schema, or no includeHeaders",
                )
        return replace(options, columns=columns, include_headers=HEADERS in columns)


def writing_refusal() -> ConfigError:
    """The error of `df.writeStream.format("semel")`."""
    return ConfigError(
        'format("semel") reads; it does not write',
        you_want='semel.write_stream(df, semel.KafkaSink(options, "totals"), pipeline="totals", '
        'guarantee="exactly_once", checkpoint=…).awaitTermination(), or semel.write_batch for a DataFrame that does '
        "not stream",
        because="Spark gives a Python writer neither the source's offsets nor one owner of the transaction",
    )
