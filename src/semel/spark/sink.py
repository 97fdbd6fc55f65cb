"""`KafkaSink`: the exactly-once Kafka sink as Spark users see it.

    sink = KafkaSink({"kafka.bootstrap.servers": "localhost:9092"}, "totals")
    query = semel.write_stream(df, sink, pipeline="totals", guarantee="exactly_once", checkpoint="/data/checkpoint")

or, inside a query of one's own, with the pipeline and guarantee given to the sink:

    df.writeStream.foreachBatch(KafkaSink(options, "totals", pipeline="totals")).option("checkpointLocation", …).start()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from semel.errors import ConfigError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, OnStep, ignore_step
from semel.sinks.kafka import (
    BATCH_BYTES_MAX,
    TRANSACTION_TIMEOUT_MS,
    KafkaOutput,
    KafkaSession,
    LedgerMissing,
    Partitioning,
)
from semel.spark.bare_scan import BareScan
from semel.spark.checkpoint import Checkpoint
from semel.spark.micro_batch import MicroBatchRun
from semel.world.clock import RealClock

COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition")
_BYTES = (t.BinaryType, t.StringType)
_HEADERS = "array<struct<key:string,value:binary>>"
RUN_ID = "spark.jobGroup.id"  # Spark runs all jobs of a query under the id of its run


def check_columns(rows: DataFrame, output: KafkaOutput) -> DataFrame:
    """Keep the columns that a record is made of; refuse wrong types before anything runs."""
    fields = {field.name: field.dataType for field in rows.schema.fields}
    if "value" not in fields:
        raise ConfigError("the rows have no column named value", you_wrote=f"columns {sorted(fields)}")
    for name in ("key", "value"):
        if name in fields and not isinstance(fields[name], (*_BYTES, t.NullType)):
            _wrong(name, fields[name], "binary or string", f"to_json({name}) or {name}.cast('string')")
    if "topic" in fields and not isinstance(fields["topic"], t.StringType):
        _wrong("topic", fields["topic"], "string", "topic.cast('string')")
    if "partition" in fields and not isinstance(fields["partition"], t.IntegerType):
        _wrong("partition", fields["partition"], "int", "partition.cast('int')")
    if "timestamp" in fields and not isinstance(fields["timestamp"], (t.TimestampType, t.TimestampNTZType)):
        _wrong("timestamp", fields["timestamp"], "timestamp", "timestamp.cast('timestamp')")
    if "headers" in fields and fields["headers"].simpleString() != _HEADERS:
        _wrong("headers", fields["headers"], _HEADERS, f"headers.cast('{_HEADERS}')")
    if len(output.topics) > 1 and "topic" not in fields:
        raise ConfigError("several output topics need a column named topic", you_wrote=f"topics {list(output.topics)}")
    if output.partitioning is Partitioning.SOURCE and "partition" not in fields:
        raise ConfigError('partitioning="source" needs a column named partition')
    return rows.select(*[name for name in (*COLUMNS, *_order_columns(output, fields)) if name in fields])


def _order_columns(output: KafkaOutput, fields: Mapping[str, t.DataType]) -> Sequence[str]:
    if output.order_by is None:
        return ()
    if not {output.order_by, "key"} <= fields.keys():
        raise ConfigError(
            f"order_by={output.order_by!r} needs that column and one named key", you_wrote=f"columns {sorted(fields)}"
        )
    return () if output.order_by in COLUMNS else (output.order_by,)


def _wrong(name: str, found: t.DataType, wanted: str, remedy: str) -> None:
    raise ConfigError(
        f"column {name!r} is {found.simpleString()}, a record needs {wanted}",
        because="turning it into bytes is a choice of format that only you can make",
        you_want=remedy,
    )


class KafkaSink(KafkaOutput):
    """A Kafka sink that Spark can call; see `KafkaOutput` for the options."""

    def __init__(
        self,
        options: Mapping[str, str] | str,
        topic: str | None = None,
        *,
        topics: Sequence[str] = (),
        pipeline: str | None = None,
        guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE,
        partitioning: str = Partitioning.KEYED,
        codec: str = "none",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        ledger_missing: str = LedgerMissing.STOP,
        order_by: str | None = None,
        on_step: OnStep = ignore_step,
    ) -> None:
        """`pipeline` and `guarantee` are needed here only when the sink itself is given to `foreachBatch`."""
        super().__init__(
            options,
            topic,
            topics=topics,
            partitioning=partitioning,
            codec=codec,
            batch_bytes_max=batch_bytes_max,
            transaction_timeout_ms=transaction_timeout_ms,
            ledger_missing=ledger_missing,
            order_by=order_by,
        )
        declared = guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)
        # Made here, not at the first micro-batch: what was planned before this moment is a replay.
        self.__dict__["_runner"] = None if pipeline is None else StreamRunner(self, pipeline, declared, on_step)

    def __call__(self, rows: DataFrame, micro_batch_id: int) -> None:
        """Write one micro-batch: what `foreachBatch` calls."""
        runner: StreamRunner | None = self.__dict__["_runner"]
        if runner is None:
            raise ConfigError(
                "the sink has no pipeline name",
                you_want='KafkaSink(..., pipeline="orders"), or semel.write_stream(df, sink, pipeline="orders", ...)',
                because="the name is the transactional id and the ledger: it tells this pipeline from every other",
            )
        runner(rows, micro_batch_id)


class StreamRunner:
    """Runs the micro-batches of one query."""

    def __init__(self, sink: KafkaOutput, pipeline: str, guarantee: Guarantee, on_step: OnStep = ignore_step) -> None:
        """Nothing is connected before the first micro-batch."""
        self._sink = sink
        self._pipeline = pipeline
        self._guarantee = guarantee
        self._on_step = on_step
        self._session: KafkaSession | None = None
        self._query: _Query | None = None
        self._started_ms = RealClock().wall_ms()

    def __call__(self, rows: DataFrame, micro_batch_id: int) -> None:
        """Write one micro-batch."""
        run_id = str(rows.sparkSession.sparkContext.getLocalProperty(RUN_ID))
        if self._query is None or self._query.run_id != run_id:
            self._query = _find_query(rows, run_id, check_columns(rows, self._sink).columns)
        query_id, checkpoint = self._query.id, self._query.checkpoint
        if self._session is None:
            checkpoint.claim(self._pipeline)
            self._session = self._sink.open(self._pipeline)
        planned = checkpoint.planned(micro_batch_id)
        before = checkpoint.before(micro_batch_id)
        micro_batch = MicroBatch(
            pipeline=self._pipeline,
            query_id=query_id,
            id=micro_batch_id,
            guarantee=self._guarantee,
            offsets=planned.offsets,
            offsets_before=before,
            is_replay=planned.planned_ms < self._started_ms,
            age_ms=RealClock().wall_ms() - planned.planned_ms,
        )
        scan = self._bare_scan(rows, self._query) if planned.offsets is not None else None
        MicroBatchRun(
            session=self._session,
            micro_batch=micro_batch,
            rows=rows.select(*self._query.columns) if scan is None and self._query.has_more else rows,
            on_step=self._on_step,
            rows_expected=_expected(micro_batch),
            may_run_again=self._query.may_run_again,
            scan=scan,
        ).execute()

    def _bare_scan(self, rows: DataFrame, query: _Query) -> BareScan | None:
        """The source itself, if it is all there is to the rows and nobody wants them sorted."""
        return BareScan.find(rows, query.columns, query.execution) if self._sink.order_by is None else None


def _expected(micro_batch: MicroBatch) -> int | None:
    """How many rows the sources bring, as far as offsets tell."""
    before, after = micro_batch.offsets_before, micro_batch.offsets
    if before is None or after is None:
        return None
    return sum(offset - before.get(partition, 0) for partition, offset in after.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """What stays the same for all micro-batches of one run, and takes a dozen questions to the JVM to find out."""

    run_id: str
    id: str
    execution: Any
    """Spark's own, in the JVM."""
    checkpoint: Checkpoint
    columns: list[str]
    has_more: bool
    """Whether rows have columns that a record has no use for."""

    def may_run_again(self) -> bool:
        """Not over state that the first run has moved on, and not after somebody has stopped the query."""
        return not self.checkpoint.is_stateful and bool(self.execution.isActive())


def _find_query(rows: DataFrame, run_id: str, columns: list[str]) -> _Query:
    """The query whose micro-batch this is."""
    spark = rows.sparkSession
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise ConfigError(
            "a sink writes micro-batches of a streaming query", you_want="semel.write_batch for a batch job"
        )
    # A micro-batch has a session of its own, which does not list its query; what all sessions share does.
    jvm: Any = spark._jvm
    shared: Any = spark._jsparkSession.sharedState()
    execution = shared.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise SinkError(f"Spark does not know the query {query_id} whose micro-batch this is")
    checkpoint = Checkpoint(spark, str(execution.resolvedCheckpointRoot()))
    return _Query(
        run_id=run_id,
        id=str(query_id),
        execution=execution,
        checkpoint=checkpoint,
        columns=columns,
        has_more=rows.columns != columns,
    )
