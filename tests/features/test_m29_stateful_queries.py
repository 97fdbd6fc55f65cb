"""M29: windows, dropDuplicates and stream-stream joins write through the same sink, over a crash."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import CommitStep
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, new_topics

__all__ = ["spark"]

NUMBERS = range(40)
EVENTS = "cast(string(value) as int) as number", "timestamp_seconds(cast(string(value) as int) * 60) as at", "key"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def query(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Job:
    return Job.filled(spark, cluster.bootstrap, tmp_path, NUMBERS, format="kafka", per_trigger=24)


def crash_and_finish(query: Job) -> None:
    kill = KillAfter(CommitStep.OFFSETS_WRITTEN, nth=2)
    assert "Killed" in (query.run(kill) or "")
    query.finish()


def test_counts_in_update_mode(query: Job) -> None:
    """The last count of each key is right, and no count appears twice."""
    query.output_mode = "update"
    query.shape = lambda rows: rows.groupBy("key").count().selectExpr("key", "cast(count as string) value")
    crash_and_finish(query)
    found = query.output()
    assert len({(one.key, one.value) for one in found}) == len(found)
    last = {one.key: int(one.value or b"0") for one in sorted(found, key=lambda one: one.offset)}
    assert last == {b"key %d" % key: len(NUMBERS[key::7]) for key in range(7)}


@pytest.mark.full
def test_windows_in_append_mode(query: Job) -> None:
    """Ten numbers to a window; a window is written once, when the watermark has passed it."""

    def shape(rows: DataFrame) -> DataFrame:
        events = rows.selectExpr(*EVENTS).withWatermark("at", "1 second")
        windows = events.selectExpr("window(at, '10 minutes') w")
        return windows.groupBy("w").count().selectExpr("cast(unix_seconds(w.start) as string) key", "'0' as value")

    query.shape = shape
    crash_and_finish(query)
    keys = sorted(int(one.key or b"-1") for one in query.output())
    assert keys == sorted(set(keys))
    assert keys[:2] == [0, 600]


@pytest.mark.full
def test_drop_duplicates(query: Job) -> None:
    fill(query.bootstrap, query.source, NUMBERS)
    query.shape = lambda rows: rows.select("key", "value").dropDuplicates(["value"])
    crash_and_finish(query)
    check_once(query.output(), NUMBERS, ordered=False)


@pytest.mark.full
def test_a_join_of_two_streams(query: Job, cluster: semel.Cluster) -> None:
    (other,) = new_topics(cluster.bootstrap, 3)
    fill(cluster.bootstrap, other, NUMBERS[::2])
    left = query.source

    def shape(rows: DataFrame) -> DataFrame:
        query.source = other
        second = query.read().selectExpr("value as same")
        query.source = left
        return rows.join(second, rows["value"] == second["same"]).select("key", "value")

    query.shape = shape
    crash_and_finish(query)
    check_once(query.output(), NUMBERS[::2], ordered=False)
