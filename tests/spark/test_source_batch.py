"""`spark.read.format("semel")` on a real cluster, beside Spark's own Kafka source: same rows, same columns."""

import json
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import semel
from semel.sinks.kafka.ledger import to_metadata
from semel.sinks.ledger import Entry
from semel.spark import register
from semel.wire.cluster import shared_cluster
from semel.wire.group_offsets import CommittedOffset, commit_offsets
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from tests.spark.source_topics import START_MS, fill, load, new_topic, options, producer, rows, send, values

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LEDGER = to_metadata(Entry(query_id="q", micro_batch_id=3))


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    register(spark)


@pytest.mark.quick(2)
@pytest.mark.parametrize("codec", CODECS)
def test_the_rows_are_those_of_sparks_own_source(spark: SparkSession, cluster: semel.Cluster, codec: str) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 100, codec=codec)
    given = options(cluster, topic, includeHeaders="true")
    ours, theirs = load(spark, given), load(spark, given, source="kafka")
    assert [(one.name, one.dataType) for one in ours.schema] == [(one.name, one.dataType) for one in theirs.schema]
    assert rows(ours) == rows(theirs)
    assert len(rows(ours)) == 100


def test_without_headers(spark: SparkSession, cluster: semel.Cluster) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 10)
    given = options(cluster, topic)
    assert rows(load(spark, given)) == rows(load(spark, given, source="kafka"))
    assert "headers" not in load(spark, given).columns


def test_times_set_by_the_broker(spark: SparkSession, cluster: semel.Cluster) -> None:
    topic = new_topic(cluster, message_timestamp_type="LogAppendTime")
    fill(cluster, topic, 10)
    given = options(cluster, topic)
    assert rows(load(spark, given)) == rows(load(spark, given, source="kafka"))
    assert {row["timestampType"] for row in rows(load(spark, given))} == {1}


def test_an_empty_topic(spark: SparkSession, cluster: semel.Cluster) -> None:
    assert load(spark, options(cluster, new_topic(cluster))).count() == 0


def test_aborted_records_are_unseen_and_open_ones_wait(spark: SparkSession, cluster: semel.Cluster) -> None:
    topic = new_topic(cluster)
    client = producer(cluster, transactional_id=f"{topic}-one")
    client.init_transactions(30)
    for outcome, first in (("committed", 0), ("aborted", 30), ("committed", 60), ("open", 90)):
        client.begin_transaction()
        send(client, topic, range(first, first + 30), text=outcome)
        assert client.flush(30) == 0
        if outcome == "committed":
            client.commit_transaction(30)
        elif outcome == "aborted":
            client.abort_transaction(30)
    committed = rows(load(spark, options(cluster, topic)))
    everything = load(spark, options(cluster, topic, kafka__isolation__level="read_uncommitted"))
    given = options(cluster, topic, kafka__isolation__level="read_committed")
    assert committed == rows(load(spark, given, source="kafka"))
    assert len(committed) == 60
    assert {str(text).split()[0] for text in values(committed)} == {"committed", "None"}
    assert everything.count() == 120
    client.abort_transaction(30)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "more",
    [
        {"startingOffsets": {"0": 5, "1": -2, "2": 7}, "endingOffsets": {"0": 8, "1": 2, "2": -1}},
        {"startingTimestamp": str(START_MS + 40)},
        {"endingTimestamp": str(START_MS + 40)},
        {"startingTimestamp": str(START_MS + 20), "endingTimestamp": str(START_MS + 40)},
        {"startingOffsetsByTimestamp": {str(number): START_MS + 10 * number for number in range(3)}},
        {"endingOffsetsByTimestamp": {"0": START_MS + 7, "1": START_MS + 50, "2": START_MS + 5000}},
        {"startingTimestamp": str(START_MS + 5000), "startingOffsetsByTimestampStrategy": "latest"},
        {"minPartitions": "7"},
        {"maxRecordsPerPartition": "9"},
    ],
)
def test_positions_mean_what_they_mean_to_sparks_own_source(
    spark: SparkSession, cluster: semel.Cluster, more: dict[str, str | dict[str, int]]
) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 60)
    texts = {name: one if isinstance(one, str) else json.dumps({topic: one}) for name, one in more.items()}
    given = options(cluster, topic) | texts
    assert rows(load(spark, given)) == rows(load(spark, given, source="kafka"))


def test_three_ways_to_say_what_to_read(spark: SparkSession, cluster: semel.Cluster) -> None:
    first, second = new_topic(cluster), new_topic(cluster)
    for topic in (first, second):
        fill(cluster, topic, 9)
    base = {"kafka.bootstrap.servers": cluster.bootstrap}
    ways = [
        {"subscribe": f"{first}, {second}"},
        {"subscribePattern": f"{first}|{second}"},
        {"assign": json.dumps({first: [0, 2], second: [1]})},
    ]
    counts = []
    for way in ways:
        ours = rows(load(spark, base | way))
        assert ours == rows(load(spark, base | way, source="kafka"))
        counts.append(len(ours))
    assert counts == [18, 18, 9]


def test_small_ranges_share_a_task_and_a_big_one_is_split(spark: SparkSession, cluster: semel.Cluster) -> None:
    topic = new_topic(cluster, partitions=40)
    fill(cluster, topic, 400, partitions=40)
    given = options(cluster, topic)
    assert load(spark, given).rdd.getNumPartitions() == 1
    assert load(spark, given).count() == 400
    del given["subscribe"]
    split = load(spark, given | {"assign": json.dumps({topic: [0]}), "minPartitions": "5"})
    assert split.rdd.getNumPartitions() == 5
    assert [row["offset"] for row in rows(split)] == list(range(10))


def test_it_starts_where_the_ledger_stands(spark: SparkSession, cluster: semel.Cluster) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 30)
    wire = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap}))
    ledger = {
        TopicPartition(topic, 0): CommittedOffset(offset_next=4, metadata=LEDGER),
        TopicPartition(topic, 1): CommittedOffset(offset_next=10, metadata=LEDGER),
    }
    commit_offsets(wire, "my-pipeline", ledger, deadline=wire.deadline())
    wire.close()
    given = options(cluster, topic, startingOffsets="ledger", ledger="my-pipeline")
    found = rows(load(spark, given))
    assert [(row["partition"], row["offset"]) for row in found] == [
        *((0, offset) for offset in range(4, 10)),
        *((2, offset) for offset in range(10)),
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"maxOffsetPerTrigger": "5"}, "you want    maxOffsetsPerTrigger"),
        ({"startingOffsets": "latest"}, "a batch read would always be empty"),
        ({"subscribe": "no-such-topic"}, "there is no no-such-topic"),
        ({"startingOffsets": '{"x": {"0": 1}}'}, "no number for"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1500"}, "can be reached"),
    ],
)
def test_what_is_wrong_is_said(spark: SparkSession, cluster: semel.Cluster, more: dict[str, str], said: str) -> None:
    topic = new_topic(cluster)
    with pytest.raises(PySparkException, match=said):
        load(spark, options(cluster, topic) | more).collect()


@pytest.mark.parametrize(
    "schema",
    ["value binary", "offset long, key binary", "partition int, headers array<struct<key:string,value:binary>>"],
)
def test_only_the_columns_that_a_schema_names(spark: SparkSession, cluster: semel.Cluster, schema: str) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 40)
    given = options(cluster, topic)
    ours = spark.read.format("semel").schema(schema).options(**given).load()
    theirs = load(spark, given | {"includeHeaders": "true"}, source="kafka").select(ours.columns)
    assert [(one.name, one.dataType) for one in ours.schema] == [(one.name, one.dataType) for one in theirs.schema]
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))


def test_an_own_schema_is_refused(spark: SparkSession, cluster: semel.Cluster) -> None:
    given = options(cluster, new_topic(cluster))
    with pytest.raises(PySparkException, match="its own columns"):
        spark.read.format("semel").schema("a int").options(**given).load().collect()
