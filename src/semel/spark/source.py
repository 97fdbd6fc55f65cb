"""`format("semel")`: Kafka as a Spark source, with the options and columns of Spark's own Kafka source.

    semel.spark.register(spark)
    spark.readStream.format("semel").option("kafka.bootstrap.servers", "…").option("subscribe", "orders").load()

The driver plans in `stream_plan.py` and `batch_plan.py`, tasks read in `task.py`; this file is what Spark calls, so its
method names are Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from semel.spark.batch_plan import plan_batch
from semel.spark.offsets import SourceOffsets
from semel.spark.options import SourceOptions
from semel.spark.ranges import OffsetRange, Task, plan_tasks
from semel.spark.row_schema import HEADERS, row_schema, wanted_columns
from semel.spark.sizes import RecordSizes
from semel.spark.stream_plan import StreamPlan
from semel.spark.task import read_ranges
from semel.spark.view import KafkaView
from semel.spark.workers import settle_worker

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "semel"


class TaskPartition(InputPartition):
    """One task as Spark ships it: its ranges, and all that reading them needs."""

    def __init__(self, ranges: Task, topic_ids: Mapping[str, str], options: SourceOptions) -> None:
        """Keep plain values: they are pickled once per task."""
        super().__init__([tuple(one) for one in ranges])
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
        return StreamPlan(self._options, KafkaView(self._options))

    @cached_property
    def _sizes(self) -> RecordSizes:
        return RecordSizes(self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Ship the options, not what the driver remembers."""
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
        last = SourceOffsets.decode(end)
        ranges = self._plan.ranges(SourceOffsets.decode(start), last)
        tasks = plan_tasks(ranges, self._options.tasks, self._sizes.of(ranges))
        return [TaskPartition(task, last.topic_ids, self._options) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run in a task."""
        assert isinstance(partition, TaskPartition)
        return partition.read()


class SemelDataSource(DataSource):
    """The source that `format("semel")` names."""

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

    def _options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        columns = wanted_columns(schema)
        options = SourceOptions.parse(self.options, streaming=streaming)
        return replace(options, columns=columns, include_headers=HEADERS in columns)
