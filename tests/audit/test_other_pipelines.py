"""Spark's own Kafka sink, killed between write and commit: the audit, which knows nothing of it, counts the copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import semel
from tests.features.test_m35_audit import Ground, cluster, ground
from tests.spark.conftest import spark
from tests.spark.sink_jobs import fill, new_topics, read_all

__all__ = ["cluster", "ground", "spark"]

RECORDS = 20
PER_TRIGGER = 12
STREAM_S_MAX = 120


def source_of(spark: SparkSession, cluster: semel.Cluster, topic: str) -> DataFrame:
    """The source as Spark's own connector reads it, in two micro-batches."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=PER_TRIGGER).load()


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_S_MAX)


def forget_last_commit(checkpoint: Path) -> None:
    """What a kill between the write and Spark's own commit leaves: all is written, and the log does not say so."""
    commits = checkpoint / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.full
def test_spark_s_own_kafka_sink_writes_its_last_micro_batch_twice(ground: Ground) -> None:
    bootstrap = ground.cluster.bootstrap
    source, target = new_topics(bootstrap, 3, 1)
    fill(bootstrap, source, range(RECORDS))
    rows = source_of(ground.spark, ground.cluster, source).select("key", "value")
    checkpoint = ground.folder / "checkpoint"
    for is_first in (True, False):
        options = {"kafka.bootstrap.servers": bootstrap, "topic": target}
        run(rows.writeStream.format("kafka").options(**options), checkpoint)
        if is_first:
            forget_last_commit(checkpoint)
    doubled = len(read_all(bootstrap, target)) - RECORDS
    assert doubled > 0, "the pipeline did not write twice, so there is nothing to find"
    sides = [f"kafka://{bootstrap}/{name}" for name in (source, target)]
    assert ground.audit(*sides)[:2] == (1, {"duplicated": doubled})
