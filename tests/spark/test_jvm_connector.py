"""Spark's own Kafka connector (the JVM one) against the embedded cluster: batch and streaming, both ways."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import semel
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.interface import Endpoint, Sent
from tests.support.topics import create_topic

PARTITIONS = 3
START_MS = 1_700_000_000_123
STREAM_S_MAX = 120
RECORDS = [
    Sent(
        key=None if number % 7 == 0 else b"key %d" % number,
        value=None if number % 11 == 0 else b"value %d" % number,
        headers=(("trace", b"%d" % number), ("null", None)) if number % 2 else (),
        timestamp_ms=START_MS + number,
        partition=number % PARTITIONS,
    )
    for number in range(60)
]
_numbers = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: semel.Cluster) -> ConfluentDriver:
    return ConfluentDriver(Endpoint(bootstrap=cluster.bootstrap))


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    name = f"spark-{next(_numbers)}"
    create_topic(cluster, name, partitions=PARTITIONS)
    return name


@pytest.fixture
def filled(driver: ConfluentDriver, topic: str) -> str:
    driver.produce(topic, RECORDS)
    return topic


def options(cluster: semel.Cluster, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def read(driver: ConfluentDriver, topic: str, wanted: int) -> list[tuple[bytes | None, bytes | None]]:
    """Read everything with another client and make sure that there is no more."""
    got = driver.consume(topic, dict.fromkeys(range(PARTITIONS), 0), wanted)
    assert sum(driver.offsets(topic, partition)[1] for partition in range(PARTITIONS)) == wanted
    return sorted(((one.key, one.value) for one in got), key=str)


def pairs(records: list[Sent]) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((one.key, one.value) for one in records), key=str)


def as_sent(row: Row) -> Sent:
    headers = tuple((one["key"], None if one["value"] is None else bytes(one["value"])) for one in row["headers"] or ())
    return Sent(
        key=None if row["key"] is None else bytes(row["key"]),
        value=None if row["value"] is None else bytes(row["value"]),
        headers=headers,
        timestamp_ms=row["time_ms"],
        partition=row["partition"],
    )


def finish(frame: DataFrame, topic: str, cluster: semel.Cluster, checkpoint: Path) -> None:
    """Run a streaming query over what is there now, into a topic."""
    query = (
        frame.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(STREAM_S_MAX), "the query did not end"


def test_batch_read(spark: SparkSession, cluster: semel.Cluster, filled: str) -> None:
    frame = spark.read.format("kafka").options(**options(cluster, filled)).option("includeHeaders", "true").load()
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS time_ms").collect()
    got = sorted(rows, key=lambda row: (row["offset"], row["partition"]))
    assert [as_sent(row) for row in got] == RECORDS
    assert {row["topic"] for row in rows} == {filled}
    assert {row["timestampType"] for row in rows} == {0}


@pytest.mark.full
def test_batch_read_of_a_range(spark: SparkSession, cluster: semel.Cluster, filled: str) -> None:
    start, end = (dict.fromkeys(range(PARTITIONS), offset) for offset in (5, 8))
    frame = (
        spark.read.format("kafka")
        .options(**options(cluster, filled))
        .option("startingOffsets", _offsets(filled, start))
        .option("endingOffsets", _offsets(filled, end))
        .load()
    )
    assert sorted(row["offset"] for row in frame.collect()) == sorted([5, 6, 7] * PARTITIONS)


def _offsets(topic: str, offsets: dict[int, int]) -> str:
    inner = ", ".join(f'"{partition}": {offset}' for partition, offset in offsets.items())
    return f'{{"{topic}": {{{inner}}}}}'


@pytest.mark.full
def test_batch_read_from_a_time(spark: SparkSession, cluster: semel.Cluster, filled: str) -> None:
    settings = {**options(cluster, filled), "startingTimestamp": str(START_MS + 30)}
    rows = spark.read.format("kafka").options(**settings).load().collect()
    assert len(rows) == 30


def test_batch_write(spark: SparkSession, cluster: semel.Cluster, driver: ConfluentDriver, topic: str) -> None:
    frame = spark.createDataFrame([(one.key, one.value) for one in RECORDS], "key binary, value binary")
    frame.write.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic).save()
    assert read(driver, topic, len(RECORDS)) == pairs(RECORDS)


def test_streaming_read_and_write_goes_on_from_its_checkpoint(
    spark: SparkSession, cluster: semel.Cluster, driver: ConfluentDriver, filled: str, tmp_path: Path
) -> None:
    target = f"{filled}-target"
    create_topic(cluster, target, partitions=PARTITIONS)
    frame = spark.readStream.format("kafka").options(**options(cluster, filled)).load().select("key", "value")
    finish(frame, target, cluster, tmp_path)
    assert read(driver, target, len(RECORDS)) == pairs(RECORDS)
    more = [Sent(key=b"later", value=b"%d" % number, partition=number % PARTITIONS) for number in range(6)]
    driver.produce(filled, more)
    finish(frame, target, cluster, tmp_path)
    assert read(driver, target, len(RECORDS) + len(more)) == pairs(RECORDS + more)


@pytest.mark.full
def test_streaming_read_in_limited_micro_batches(
    spark: SparkSession, cluster: semel.Cluster, filled: str, tmp_path: Path
) -> None:
    settings = {**options(cluster, filled), "maxOffsetsPerTrigger": "15"}
    sizes: list[int] = []
    query = (
        spark.readStream.format("kafka")
        .options(**settings)
        .load()
        .writeStream.foreachBatch(lambda frame, _: sizes.append(frame.count()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(STREAM_S_MAX), "the query did not end"
    assert sum(sizes) == len(RECORDS)
    assert max(sizes) <= 15
