"""What the tests of the source share: topics with records in them, and readers of both formats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession

import semel
from tests.support.topics import create_topic

STREAM_S_MAX = 120
PRODUCE_S_MAX = 30
START_MS = 1_700_000_000_123
_numbers = count()


def new_topic(cluster: semel.Cluster, partitions: int = 3, **config: str) -> str:
    """Create a topic that no other test uses."""
    name = f"source-{next(_numbers)}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    create_topic(cluster, name, partitions=partitions, config=settings)
    return name


def producer(cluster: semel.Cluster, **settings: Any) -> Producer:
    """A producer of librdkafka; settings with underscores for dots."""
    return Producer(
        {"bootstrap.servers": cluster.bootstrap, **{key.replace("_", "."): value for key, value in settings.items()}}
    )


def fill(
    cluster: semel.Cluster, topic: str, records: int, *, partitions: int = 3, first: int = 0, codec: str = "none"
) -> None:
    """Send records with numbers, nulls and headers among them, to the partitions in turn."""
    client = producer(cluster, compression_type=codec)
    send(client, topic, range(first, first + records), partitions)
    assert client.flush(PRODUCE_S_MAX) == 0


def send(
    client: Producer, topic: str, numbers: Sequence[int] | range, partitions: int = 3, text: str = "value"
) -> None:
    """Send numbered records without waiting."""
    for number in numbers:
        client.produce(
            topic,
            key=None if number % 7 == 0 else b"key %d" % number,
            value=None if number % 11 == 0 else f"{text} {number}".encode(),
            headers=[("trace", b"%d" % number), ("null", None), ("trace", b"again")] if number % 2 else None,
            timestamp=START_MS + number,
            partition=number % partitions,
        )


def options(cluster: semel.Cluster, topic: str, **more: str) -> dict[str, str]:
    """Read a topic from its start."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return given | {key.replace("__", "."): value for key, value in more.items()}


def load(spark: SparkSession, given: dict[str, str], *, source: str = "semel") -> DataFrame:
    """Read as a batch."""
    return spark.read.format(source).options(**given).load()


def rows(frame: DataFrame) -> list[Row]:
    """All rows, in an order that both formats share."""
    return sorted(frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def values(found: Sequence[Row]) -> list[str | None]:
    """The values as text."""
    return sorted((None if row["value"] is None else bytes(row["value"]).decode() for row in found), key=str)


def drain(
    spark: SparkSession, given: dict[str, str], checkpoint: Path, *, source: str = "semel"
) -> list[tuple[int, list[Row]]]:
    """Run a stream over what is there now and give the rows of each micro-batch."""
    seen: list[tuple[int, list[Row]]] = []

    def keep(frame: DataFrame, micro_batch_id: int) -> None:
        seen.append((micro_batch_id, frame.collect()))

    query = (
        spark.readStream.format(source)
        .options(**given)
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(STREAM_S_MAX), "the query did not end"
    finally:
        query.stop()
    return seen


def all_rows(micro_batches: Sequence[tuple[int, list[Row]]]) -> list[Row]:
    """The rows of all micro-batches."""
    return [row for _, found in micro_batches for row in found]
