"""M25: Kafka to Spark to Kafka, exactly once: keyed, unkeyed, several topics in one transaction, any parallelism."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import CommitStep, RowsAhead
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, new_topics, number_of, read_all

__all__ = ["spark"]

NUMBERS = range(90)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=3, config={"log.retention.ms": "-1"}) as started:
        yield started


def job(spark: SparkSession, cluster: semel.Cluster, folder: Path, *partitions: int, partitioning: str) -> Job:
    source, *outputs = new_topics(cluster.bootstrap, 3, *(partitions or (4,)))
    fill(cluster.bootstrap, source, NUMBERS)
    return Job(
        spark=spark,
        bootstrap=cluster.bootstrap,
        source=source,
        outputs=tuple(outputs),
        checkpoint=str(folder / "checkpoint"),
        partitioning=partitioning,
        per_trigger=40,
    )


@pytest.mark.quick(1)
@pytest.mark.parametrize("partitioning", ["keyed", "spread", "source"])
def test_every_record_once_over_a_crash(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, partitioning: str
) -> None:
    copy = job(spark, cluster, tmp_path, partitioning=partitioning)
    if partitioning == "source":
        copy.shape = lambda rows: rows.select("key", "value", "partition")
    kill = KillAfter(CommitStep.COMMITTED, nth=2)
    assert "Killed" in (copy.run(kill) or "")
    copy.finish()
    found = copy.output()
    check_once(found, NUMBERS, ordered=partitioning != "spread")
    if partitioning == "source":
        assert {(number_of(one) % 7 % 3, one.partition) for one in found} == {(0, 0), (1, 1), (2, 2)}
    last = copy.ledger().last
    assert last is not None
    assert last.number == last.micro_batch_id + 1


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Choose how many tasks write, whatever the size of the micro-batch."""
    return lambda count: monkeypatch.setattr(RowsAhead, "writers", lambda *_: count)


@pytest.mark.full
@pytest.mark.parametrize("shape", [("keyed", 1), ("spread", 2), ("keyed", 3), ("spread", 4)])
def test_any_parallelism(
    spark: SparkSession,
    cluster: semel.Cluster,
    tmp_path: Path,
    writers: Callable[[int], None],
    shape: tuple[str, int],
) -> None:
    """So many tasks read, so many write; the driver dies in between."""
    partitioning, tasks = shape
    copy = job(spark, cluster, tmp_path, partitioning=partitioning)
    copy.source_options = {"minPartitions": str(tasks)}
    writers(tasks)
    assert "Killed" in (copy.run(KillAfter(CommitStep.ROWS_WRITTEN, nth=2)) or "")
    copy.finish()
    check_once(copy.output(), NUMBERS, ordered=partitioning == "keyed")


@pytest.mark.quick(1)
@pytest.mark.parametrize("count", [1, 3])
def test_keys_keep_their_order_when_partitions_are_split(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, writers: Callable[[int], None], count: int
) -> None:
    copy = job(spark, cluster, tmp_path, partitioning="keyed")
    copy.per_trigger = None
    copy.source_options = {"minPartitions": "8"}
    writers(count)
    copy.finish()
    check_once(copy.output(), NUMBERS, ordered=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("count", [1, 2])
def test_keys_keep_their_order_behind_a_shuffle_of_one_s_own(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, writers: Callable[[int], None], count: int
) -> None:
    """Spark keeps no order through a shuffle; the sink brings it back by the column it is told."""
    copy = job(spark, cluster, tmp_path, partitioning="keyed")
    copy.per_trigger = None
    copy.shape = lambda rows: rows.repartition(4).select("key", "value", "offset")
    copy.sink_options = {"order_by": "offset"}
    writers(count)
    copy.finish()
    check_once(copy.output(), NUMBERS, ordered=True)


@pytest.mark.full
def test_a_split_partition_is_written_by_one_task_all_the_same(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, writers: Callable[[int], None]
) -> None:
    """`source` needs no shuffle, unless two tasks read one partition: then the micro-batch is run again with one."""
    copy = job(spark, cluster, tmp_path, partitioning="source")
    copy.per_trigger = None
    copy.source_options = {"minPartitions": "8"}
    copy.shape = lambda rows: rows.select("key", "value", "partition")
    writers(3)
    copy.finish()
    found = copy.output()
    check_once(found, NUMBERS, ordered=True)
    assert {(number_of(one) % 7 % 3, one.partition) for one in found} == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.full
def test_several_topics_in_one_transaction(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    copy = job(spark, cluster, tmp_path, 3, 2, partitioning="keyed")
    even, odd = copy.outputs

    def shape(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("key", "value", f"if(cast(string(value) as int) % 2 = 0, '{even}', '{odd}') as topic")

    copy.shape = shape
    assert "Killed" in (copy.run(KillAfter(CommitStep.OFFSETS_WRITTEN)) or "")
    assert copy.output() == []
    copy.finish()
    check_once(read_all(cluster.bootstrap, even), NUMBERS[::2], ordered=True)
    check_once(read_all(cluster.bootstrap, odd), NUMBERS[1::2], ordered=True)


def test_all_columns_travel(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    copy = job(spark, cluster, tmp_path, partitioning="keyed")
    copy.source_options = {"includeHeaders": "true"}
    copy.sink_options = {"codec": "zstd"}

    def shape(rows: DataFrame) -> DataFrame:
        return rows.selectExpr(
            "if(offset = 0, null, key) as key",
            "value",
            "array(named_struct('key', 'from', 'value', value), named_struct('key', 'none', 'value', null)) as headers",
            "timestamp_millis(1700000000123 + cast(string(value) as int)) as timestamp",
        )

    copy.shape = shape
    copy.finish()
    found = copy.output()
    check_once(found, NUMBERS, ordered=False)
    assert all(one.timestamp_ms == 1_700_000_000_123 + number_of(one) for one in found)
    assert all(one.headers == (("from", one.value), ("none", None)) for one in found)
    assert sum(one.key is None for one in found) == 3


@pytest.mark.full
def test_spark_s_own_source_works_too(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    copy = job(spark, cluster, tmp_path, partitioning="keyed")
    copy.format = "kafka"
    assert "Killed" in (copy.run(KillAfter(CommitStep.ROWS_WRITTEN)) or "")
    copy.finish()
    check_once(copy.output(), NUMBERS, ordered=True)


@pytest.mark.full
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_more_rows_than_one_task_takes(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, partitioning: str
) -> None:
    """A batch job of several tasks on either side; the same run id writes nothing the second time."""
    (topic,) = new_topics(cluster.bootstrap, 4)
    rows = spark.range(0, 30_000, 1, 4).selectExpr("cast(id as string) key", "cast(id as string) value")
    sink = semel.KafkaSink(cluster.bootstrap, topic, partitioning=partitioning)
    name = f"batch-{topic}"
    assert semel.write_batch(rows, sink, pipeline=name, run_id="monday") == 30_000
    assert semel.write_batch(rows, sink, pipeline=name, run_id="monday") == 0
    check_once(read_all(cluster.bootstrap, topic), range(30_000), ordered=False)


@pytest.mark.full
def test_a_sink_given_to_a_query_of_one_s_own(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    copy = job(spark, cluster, tmp_path, partitioning="spread")
    sink = semel.KafkaSink(cluster.bootstrap, *copy.outputs, partitioning="spread", pipeline=copy.pipeline)
    writer = copy.read().select("key", "value").writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", copy.checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    check_once(copy.output(), NUMBERS, ordered=False)
