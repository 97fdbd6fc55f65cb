"""`write_stream` and `write_batch`: a DataFrame into a sink, with the guarantee declared."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch, OnStep, ignore_step
from semel.sinks.kafka import KafkaOutput
from semel.spark.arrow_limits import guessed_row_bytes_max
from semel.spark.micro_batch import MicroBatchRun
from semel.spark.sink import StreamRunner, check_columns

_PIPELINE = re.compile(r"[A-Za-z0-9._-]{1,200}")
BATCH_PREFIX = "batch:"


def _checked(pipeline: str, guarantee: Guarantee | str) -> Guarantee:
    if not _PIPELINE.fullmatch(pipeline):
        raise ConfigError(f"{pipeline!r} cannot name a pipeline", you_want="letters, digits, dot, dash and underscore")
    return guarantee if isinstance(guarantee, Guarantee) else Guarantee.parse(guarantee)


def _check_session(rows: DataFrame) -> None:
    if not hasattr(rows.sparkSession, "_jvm"):
        raise ConfigError(
            "a Spark Connect session cannot drive this sink",
            because="the driver's half reads the checkpoint and owns the transaction, which needs Spark's own process",
            you_want="a classic session: SparkSession.builder.master(...), or spark-submit",
        )


def write_stream(
    rows: DataFrame,
    sink: KafkaOutput,
    *,
    pipeline: str,
    guarantee: Guarantee | str,
    checkpoint: str,
    trigger: dict[str, Any] | None = None,
    query_name: str | None = None,
    output_mode: str = "append",
    on_step: OnStep = ignore_step,
) -> StreamingQuery:
    """Start a query that writes every micro-batch into the sink; `trigger` as `DataStreamWriter.trigger` takes it."""
    declared = _checked(pipeline, guarantee)
    _check_session(rows)
    if not rows.isStreaming:
        raise ConfigError("write_stream needs a streaming DataFrame", you_want="semel.write_batch(df, sink, ...)")
    check_columns(rows, sink)
    writer = rows.writeStream.foreachBatch(StreamRunner(sink, pipeline, declared, on_step))
    writer = writer.option("checkpointLocation", checkpoint).outputMode(output_mode)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def write_batch(
    rows: DataFrame,
    sink: KafkaOutput,
    *,
    pipeline: str,
    run_id: str,
    guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE,
    on_step: OnStep = ignore_step,
) -> int:
    """Write a batch job's rows once, in one transaction; returns how many, 0 when this run id was written before."""
    declared = _checked(pipeline, guarantee)
    _check_session(rows)
    if rows.isStreaming:
        raise ConfigError("write_batch needs a DataFrame that is not streaming", you_want="semel.write_stream(...)")
    if not run_id:
        raise ConfigError(
            "run_id is empty", because="the run id in the ledger is what keeps a repeated run from writing"
        )
    checked = check_columns(rows, sink)
    micro_batch = MicroBatch(
        pipeline=pipeline, query_id=BATCH_PREFIX + run_id, id=0, guarantee=declared, offsets=None, run_id=run_id
    )
    session = sink.open(pipeline)
    session.row_bytes_max = guessed_row_bytes_max(checked)
    return MicroBatchRun(
        session=session,
        micro_batch=micro_batch,
        rows=checked,
        on_step=on_step,
        rows_expected=None,
        may_run_again=lambda: True,
    ).execute()
