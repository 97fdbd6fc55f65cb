"""`spark.readStream.format("semel")` on a real cluster: micro-batches, restarts, transactions, data loss."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.kafka.ledger import to_metadata
from semel.sinks.ledger import Entry
from semel.spark import register
from semel.spark.offsets import SourceOffsets
from semel.wire.cluster import shared_cluster
from semel.wire.group_offsets import CommittedOffset, commit_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.interface import Endpoint
from tests.spark.source_topics import (
    STREAM_S_MAX,
    all_rows,
    drain,
    fill,
    load,
    new_topic,
    options,
    producer,
    send,
    values,
)
from tests.support.topics import create_topic

LEDGER = to_metadata(Entry(query_id="q", micro_batch_id=3))


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: semel.Cluster) -> ConfluentDriver:
    return ConfluentDriver(Endpoint(bootstrap=cluster.bootstrap))


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def topic(cluster: semel.Cluster) -> str:
    return new_topic(cluster)


def test_every_record_once_over_restarts(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic, includeHeaders="true")
    fill(cluster, topic, 30)
    first = all_rows(drain(spark, given, tmp_path))
    fill(cluster, topic, 12, first=30)
    second = all_rows(drain(spark, given, tmp_path))
    third = all_rows(drain(spark, given, tmp_path))
    assert (len(first), len(second), len(third)) == (30, 12, 0)
    everything = sorted(map(str, load(spark, given, source="kafka").collect()))
    assert sorted(map(str, first + second)) == everything


def test_only_the_columns_that_a_schema_names(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 30)
    seen: list[str] = []
    frame = spark.readStream.format("semel").schema("offset long, value binary").options(**options(cluster, topic))
    query = (
        frame.load()
        .writeStream.foreachBatch(lambda found, _: seen.extend(map(str, found.collect())))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(STREAM_S_MAX)
    theirs = load(spark, options(cluster, topic), source="kafka").select("offset", "value")
    assert sorted(seen) == sorted(map(str, theirs.collect()))


def test_micro_batches_keep_to_the_limit(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 30)
    seen = drain(spark, options(cluster, topic, maxOffsetsPerTrigger="9"), tmp_path)
    assert [len(found) for _, found in seen] == [9, 9, 9, 3]
    assert len({(row["partition"], row["offset"]) for row in all_rows(seen)}) == 30


def test_offsets_in_the_checkpoint_are_readable(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 7)
    drain(spark, options(cluster, topic), tmp_path)
    entry = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[2])
    assert entry.pop(topic) == {"0": 3, "1": 2, "2": 2}
    ((addition, nothing),) = entry.items()
    assert nothing == {}
    assert set(json.loads(addition.removeprefix("#semel "))) == {"logs", "start"}


@pytest.mark.full
def test_a_failed_first_micro_batch_is_read_again_from_its_own_start(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    """Spark forgets where the first micro-batch began; with "latest" its records would be skipped."""
    fill(cluster, topic, 6)
    given = options(cluster, topic, startingOffsets="latest")
    frame = spark.readStream.format("semel").options(**given).load()
    sizes: list[int] = []

    def fail_when_full(found: DataFrame, micro_batch_id: int) -> None:
        sizes.append(found.count())
        raise RuntimeError("the sink is broken")

    writer = frame.writeStream.foreachBatch(fail_when_full).option("checkpointLocation", str(tmp_path))
    query = writer.start()
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        query.awaitTermination(STREAM_S_MAX)
    fill(cluster, topic, 9, first=6)
    entry = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[2])
    assert SourceOffsets.decode(entry).start == {TopicPartition(topic, number): 2 for number in range(3)}
    assert len(all_rows(drain(spark, given, tmp_path))) == 9


@pytest.mark.full
def test_an_open_transaction_holds_and_an_aborted_one_is_passed(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic)
    client = producer(cluster, transactional_id=f"{topic}-one")
    client.init_transactions(30)
    client.begin_transaction()
    send(client, topic, range(30), text="first")
    assert client.flush(30) == 0
    assert all_rows(drain(spark, given, tmp_path)) == []
    client.commit_transaction(30)
    assert len(all_rows(drain(spark, given, tmp_path))) == 30
    client.begin_transaction()
    send(client, topic, range(30, 60), text="aborted")
    assert client.flush(30) == 0
    client.abort_transaction(30)
    fill(cluster, topic, 3, first=61)
    assert values(all_rows(drain(spark, given, tmp_path))) == ["value 61", "value 62", "value 63"]


def test_partitions_that_are_added_later(
    spark: SparkSession, cluster: semel.Cluster, driver: ConfluentDriver, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic, startingOffsets="latest")
    drain(spark, given, tmp_path)
    driver.grow(topic, 5)
    fill(cluster, topic, 10, partitions=5)
    assert len(all_rows(drain(spark, given, tmp_path))) == 10


def test_it_starts_where_the_ledger_stands(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    fill(cluster, topic, 30)
    wire = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap}))
    places = [TopicPartition(topic, number) for number in range(3)]
    ledger = {place: CommittedOffset(offset_next=8, metadata=LEDGER) for place in places}
    commit_offsets(wire, f"{topic}-pipeline", ledger, deadline=wire.deadline())
    wire.close()
    given = options(cluster, topic, startingOffsets="ledger", ledger=f"{topic}-pipeline")
    found = all_rows(drain(spark, given, tmp_path))
    assert sorted((row["partition"], row["offset"]) for row in found) == [(p, o) for p in range(3) for o in (8, 9)]


@pytest.mark.full
def test_retention_overtook_the_reader(
    spark: SparkSession, cluster: semel.Cluster, driver: ConfluentDriver, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic)
    fill(cluster, topic, 6)
    drain(spark, given, tmp_path)
    fill(cluster, topic, 24, first=6)
    driver.delete_records(topic, 1, 7)
    with pytest.raises(StreamingQueryException) as caught:
        drain(spark, given, tmp_path)
    for part in ("data loss", f"{topic} partition 1", "wanted offset 2", "the next is 7", "failOnDataLoss"):
        assert part in str(caught.value)
    found = all_rows(drain(spark, given | {"failOnDataLoss": "false"}, tmp_path))
    assert sorted(row["offset"] for row in found if row["partition"] == 1) == [7, 8, 9]
    assert len(found) == 19


@pytest.mark.full
def test_a_recreated_topic(
    spark: SparkSession, cluster: semel.Cluster, driver: ConfluentDriver, topic: str, tmp_path: Path
) -> None:
    given = options(cluster, topic)
    fill(cluster, topic, 6)
    drain(spark, given, tmp_path)
    driver.delete(topic)
    create_topic(cluster, topic, partitions=3)
    fill(cluster, topic, 30, first=100)
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        drain(spark, given, tmp_path)
    found = all_rows(drain(spark, given | {"failOnDataLoss": "false"}, tmp_path))
    assert len(found) == 30


def test_a_stream_has_no_end(spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        drain(spark, options(cluster, topic, endingOffsets="latest"), tmp_path)


def test_a_query_reads_on_while_it_runs(
    spark: SparkSession, cluster: semel.Cluster, topic: str, tmp_path: Path
) -> None:
    query = (
        spark.readStream.format("semel")
        .options(**options(cluster, topic))
        .load()
        .writeStream.format("memory")
        .queryName("reads_on")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        for already in (0, 10, 20):
            fill(cluster, topic, 10, first=already)
            query.processAllAvailable()
            assert spark.table("reads_on").count() == already + 10
    finally:
        query.stop()
