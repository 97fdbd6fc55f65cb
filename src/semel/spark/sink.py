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

from semel.errors import ConfigError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import Column, MicroBatch, OnStep, Sink, SinkSession, check_pipeline_name, ignore_step
from semel.sinks.kafka.sink import BATCH_BYTES_MAX, TRANSACTION_TIMEOUT_MS, KafkaOutput
from semel.sinks.kafka.stages import Partitioning
from semel.sinks.recovery import LedgerMissing, LostState
from semel.spark.bare_scan import BareScan
from semel.spark.checkpoint import Checkpoint, SparkCheckpoint
from semel.spark.micro_batch import MicroBatchRun
from semel.spark.row_schema import columns_of
from semel.spark.stopping import QUERY_ID, is_stopped, leaving_error, running_query
from semel.world.clock import RealClock

RUN_ID = "spark.jobGroup.id"  # Spark runs all jobs of a query under the id of its run
# The last micro-batch that each pipeline of this process was called for: place and name -> run of the query and id.
_called: dict[tuple[object, str], tuple[str, int]] = {}


def chosen_columns(rows: DataFrame, sink: Sink) -> tuple[Column, ...]:
    """The columns that the sink writes; wrong ones are refused before anything runs."""
    return sink.check_columns(columns_of(rows.schema))


def selected(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """These columns of the rows, whatever characters their names have; those that are not there are made."""
    names = ["`" + column.name.replace("`", "``") + "`" for column in columns]
    return rows.selectExpr(
        *(f"{one.made_by} AS {name}" if one.made_by else name for one, name in zip(columns, names, strict=True))
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
        lost_state: str = LostState.STOP,
        order_by: str | None = None,
        stamp: bool = False,
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
            lost_state=lost_state,
            order_by=order_by,
            stamp=stamp,
        )
        declared = guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)
        # Made here, not at the first micro-batch: what was planned before this moment is a replay.
        self._runner = None if pipeline is None else StreamRunner(self, pipeline, declared, on_step)

    def __call__(self, rows: DataFrame, micro_batch_id: int) -> None:
        """Write one micro-batch: what `foreachBatch` calls."""
        if self._runner is None:
            raise ConfigError(
                "the sink has no pipeline name",
                you_want='KafkaSink(..., pipeline="orders"), or semel.write_stream(df, sink, pipeline="orders", ...)',
                because="the name is the transactional id and the ledger: it tells this pipeline from every other",
            )
        self._runner(rows, micro_batch_id)


class StreamRunner:
    """Runs the micro-batches of one query."""

    def __init__(self, sink: Sink, pipeline: str, guarantee: Guarantee, on_step: OnStep = ignore_step) -> None:
        """Nothing is connected before the first micro-batch."""
        check_pipeline_name(pipeline)
        self._sink = sink
        self._pipeline = pipeline
        self._guarantee = guarantee
        self._on_step = on_step
        self._session: SinkSession | None = None
        self._query: _Query | None = None
        self._started_ms = RealClock().wall_ms()

    def __call__(self, rows: DataFrame, micro_batch_id: int) -> None:
        """Write one micro-batch; any failure is raised as one error that Spark can read, see `stopping`."""
        try:
            self._run(rows, micro_batch_id)
        except Exception as error:  # noqa: BLE001  (whatever it is, Spark reads its text)
            # Before Spark hears of the error, since it may start the query again at once.
            self.let_go()
            raise leaving_error(
                error,
                stopped=is_stopped(rows),
                micro_batch=f"micro-batch {micro_batch_id} of pipeline {self._pipeline!r}",
                guarantee=self._guarantee,
            ) from None

    def let_go(self) -> None:
        """Give back what the session holds between micro-batches; there is no next one."""
        if self._session is not None:
            self._session.let_go()

    def _run(self, rows: DataFrame, micro_batch_id: int) -> None:
        run_id = str(rows.sparkSession.sparkContext.getLocalProperty(RUN_ID))
        # A writer may be started again, with this runner in it.
        if self._query is None or self._query.run_id != run_id:
            self._query = _find_query(rows, run_id, chosen_columns(rows, self._sink))
        query_id, checkpoint = self._query.id, self._query.checkpoint
        if self._session is None:
            # Before the session is opened: a checkpoint of another pipeline must be refused before anybody is fenced.
            checkpoint.claim(self._pipeline, micro_batch_id)
            self._session = self._sink.open(self._pipeline, self._is_stopped)
        self._check_called_once(run_id, micro_batch_id)
        micro_batch = checkpoint.log.micro_batch(
            self._pipeline, query_id, micro_batch_id, self._guarantee, started_ms=self._started_ms
        )
        # Without Kafka offsets some source is not ours, and there is no scan to read from.
        scan = self._bare_scan(rows, self._query) if micro_batch.offsets is not None else None
        MicroBatchRun(
            session=self._session,
            micro_batch=micro_batch,
            # Only where needed: a projection more is a plan more for Spark in every micro-batch.
            rows=selected(rows, self._query.columns) if scan is None and self._query.has_more else rows,
            on_step=self._on_step,
            columns=self._query.columns,
            rows_expected=_expected(micro_batch),
            may_run_again=self._query.may_run_again,
            is_stateful=lambda: checkpoint.is_stateful,
            checkpoint=checkpoint.folder,
            scan=scan,
        ).execute()

    def _check_called_once(self, run_id: str, micro_batch_id: int) -> None:
        """Refuse a second sink or call of one name: the ledger would say that its rows are in the output (E17)."""
        place = (self._sink.place, self._pipeline)
        # A query that is restarted may call for the same micro-batch once more, under another run id.
        if _called.get(place) == (run_id, micro_batch_id):
            raise ConfigError(
                f"pipeline {self._pipeline!r} was called twice for micro-batch {micro_batch_id}",
                because="its ledger has one entry for a micro-batch: the second call would write nothing",
                you_want="another pipeline name for the second sink, in a new checkpoint folder; or one call with all "
                "rows, and a column named topic",
            )
        _called[place] = (run_id, micro_batch_id)

    def _is_stopped(self) -> bool:
        return self._query is not None and not self._query.execution.isActive()

    def _bare_scan(self, rows: DataFrame, query: _Query) -> BareScan | None:
        """The source's scan, if the rows are exactly its rows and need not be sorted."""
        if self._sink.order_by is not None or any(column.made_by for column in query.columns):
            return None
        return BareScan.find(rows, [column.name for column in query.columns], query.execution)


def _expected(micro_batch: MicroBatch) -> int | None:
    """How many rows the sources bring, as far as offsets tell."""
    before, after = micro_batch.offsets_before, micro_batch.offsets
    if before is None or after is None:
        return None
    return sum(offset - before.get(partition, 0) for partition, offset in after.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """What is the same for all micro-batches of one run of a query; remembered, since the JVM is slow to ask."""

    run_id: str
    id: str
    execution: Any
    """Spark's own, in the JVM."""
    checkpoint: Checkpoint
    columns: tuple[Column, ...]
    has_more: bool
    """Whether rows have columns that the sink has no use for, or needs in another form."""

    def may_run_again(self) -> bool:
        """Whether it may: not if the first run has changed a state, and not after the query was stopped."""
        return not self.checkpoint.is_stateful and bool(self.execution.isActive())


def _find_query(rows: DataFrame, run_id: str, columns: tuple[Column, ...]) -> _Query:
    """The query whose micro-batch this is."""
    spark = rows.sparkSession
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    if not query_id:
        raise ConfigError(
            "a sink writes micro-batches of a streaming query", you_want="semel.write_batch for a batch job"
        )
    execution = running_query(rows)
    if execution is None:
        raise SinkError(f"Spark does not know the query {query_id} whose micro-batch this is")
    checkpoint = SparkCheckpoint(spark, str(execution.resolvedCheckpointRoot()))
    return _Query(
        run_id=run_id,
        id=str(query_id),
        execution=execution,
        checkpoint=checkpoint,
        columns=columns,
        has_more=rows.columns != [column.name for column in columns] or any(column.made_by for column in columns),
    )
