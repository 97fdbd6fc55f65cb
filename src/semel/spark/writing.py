"""`write_stream` and `write_batch`: a DataFrame into a sink, with the guarantee declared; `stamp` for its rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.base import KEPT_FOREVER, MicroBatch, OnStep, Sink, check_pipeline_name, ignore_step
from semel.sinks.run_ids import checked_run, duration, run_query_id
from semel.sinks.stamps import STAMP_SQL
from semel.spark.arrow_limits import guessed_row_bytes_max
from semel.spark.micro_batch import MicroBatchRun
from semel.spark.several import SeveralRunners, Target, shaped_sinks
from semel.spark.sink import StreamRunner, chosen_columns, selected
from semel.world.clock import RealClock

log = logging.getLogger("semel.spark")


def _checked(pipeline: str, guarantee: Guarantee | str) -> Guarantee:
    check_pipeline_name(pipeline)
    return guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)


def _check_session(rows: DataFrame) -> None:
    if not hasattr(rows.sparkSession, "_jvm"):
        raise ConfigError(
            "a Spark Connect session cannot drive this sink",
            because="the driver's half reads the checkpoint and owns the transaction, which needs Spark's own process",
            you_want="a classic session: SparkSession.builder.master(...), or spark-submit; or, for PostgreSQL and "
            'Delta Lake, df.writeStream.format("semel-postgres") and format("semel-delta"), which Spark drives itself',
        )


def write_stream(
    rows: DataFrame,
    sink: Sink | Sequence[Target],
    *,
    pipeline: str,
    guarantee: Guarantee | str,
    checkpoint: str,
    trigger: dict[str, Any] | None = None,
    query_name: str | None = None,
    output_mode: str = "append",
    on_step: OnStep = ignore_step,
) -> StreamingQuery:
    """Start a query that writes every micro-batch into the sink; `trigger` as `DataStreamWriter.trigger` takes it.

    Several sinks get every micro-batch one after the other, each exactly once; a pair of sink and function gets the
    rows that the function makes of the query's. `query_name` is how Spark shows the query; the pipeline's name unless
    given.
    """
    # Everything that can be wrong is found before Spark starts anything.
    declared = _checked(pipeline, guarantee)
    _check_session(rows)
    if not rows.isStreaming:
        raise ConfigError("write_stream needs a streaming DataFrame", you_want="semel.write_batch(df, sink, ...)")
    runners = []
    for one, shape in shaped_sinks(sink):
        # Wrong columns are refused here, not in the first micro-batch.
        chosen_columns(shape(rows), one)
        runners.append((StreamRunner(one, pipeline, declared, on_step), shape))
    # A single sink may read the source by itself, in the tasks that write; kept rows are for more than one.
    runner = runners[0][0] if isinstance(sink, Sink) else SeveralRunners(runners)
    writer = rows.writeStream.foreachBatch(runner)
    writer = writer.option("checkpointLocation", checkpoint).outputMode(output_mode)
    # Spark refuses a name that another query of the session has; a pipeline with two drivers is the ledger's affair.
    if query_name is not None or pipeline not in {query.name for query in rows.sparkSession.streams.active}:
        writer = writer.queryName(pipeline if query_name is None else query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def write_batch(
    rows: DataFrame,
    sink: Sink,
    *,
    pipeline: str,
    run_id: str,
    planned_at: datetime | None = None,
    guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE,
    on_step: OnStep = ignore_step,
) -> int:
    """Write a batch job's rows once, in one transaction; returns how many, 0 when this run id was written before.

    Brokers remember a run id for `offsets.retention.minutes`, a week by default. With `planned_at`, the earliest time
    at which the run can have been written, a run that may have been forgotten is refused: OutcomeUnknownError.
    """
    declared = _checked(pipeline, guarantee)
    run = checked_run(run_id, planned_at, RealClock().wall_ms())
    _check_session(rows)
    if rows.isStreaming:
        raise ConfigError("write_batch needs a DataFrame that is not streaming", you_want="semel.write_stream(...)")
    columns = chosen_columns(rows, sink)
    checked = selected(rows, columns)
    micro_batch = MicroBatch(
        pipeline=pipeline, query_id=run_query_id(run), id=0, guarantee=declared, offsets=None, run=run
    )
    session = sink.open(pipeline)
    # Before any row is written: a run that may have been forgotten must not be written twice.
    kept_ms = session.prepare_run(micro_batch)
    if kept_ms is None:
        log.warning("pipeline %s: the brokers do not say for how long run ids are remembered", pipeline)
    elif kept_ms != KEPT_FOREVER:
        log.info("pipeline %s: run %s is remembered for %s once written", pipeline, run_id, duration(kept_ms))
    # A batch job has no micro-batch before it that could have shown how large rows are.
    session.row_bytes_max = guessed_row_bytes_max(checked)
    work = MicroBatchRun(
        session=session,
        micro_batch=micro_batch,
        rows=checked,
        on_step=on_step,
        columns=columns,
        rows_expected=None,
        may_run_again=lambda: True,
    )
    try:
        return work.execute()
    finally:
        # The transaction is over either way; the next run of the pipeline need not wait for this process.
        session.let_go()


def stamp() -> Column:
    """Which record of the source a row comes from, as a text such as `orders-0@17`; see `sinks/stamps`.

    `source.withColumn("semel_stamp", semel.stamp())`, before the columns `topic`, `partition` and `offset` of a Kafka
    source are dropped or mean the output.
    """
    return expr(STAMP_SQL)
