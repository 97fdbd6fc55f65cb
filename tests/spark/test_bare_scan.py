"""Queries that are the source and nothing else are read by the tasks that write; all others by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks import base
from semel.sinks.base import CommitStep
from semel.spark.bare_scan import BareScan, Batches, ReadPlanned
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.interface import Endpoint
from tests.spark.sink_jobs import Got, Job, check_once, new_topics, outcome_of

ROWS = 60
Shape = Callable[[DataFrame], DataFrame]
Make = Callable[..., Job]
Found = list[BareScan | None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Found:
    """What the sink found out about each micro-batch."""
    find = BareScan.find
    answers: list[BareScan | None] = []

    def noted(*given: Any) -> BareScan | None:
        answers.append(find(*given))
        return answers[-1]

    monkeypatch.setattr(BareScan, "find", noted)
    return answers


@pytest.fixture
def make(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Make:
    """Make a job of several micro-batches."""

    def made(**options: Any) -> Job:
        return Job.filled(spark, cluster.bootstrap, tmp_path, range(ROWS), per_trigger=ROWS // 2, **options)

    return made


def test_a_copy_is_read_where_it_is_written(make: Make, found: Found) -> None:
    """Spark computes none of the rows, and its progress counts them all the same."""
    copy = make()
    query = copy.start()
    assert outcome_of(query) is None
    assert len(found) > 1
    assert all(found)
    check_once(copy.output(), range(ROWS), ordered=True)
    counts = [row["numInputRows"] for row in query.recentProgress]
    assert (sum(counts), max(counts)) == (ROWS, ROWS // 2 - 1)


@pytest.mark.quick(1)
@pytest.mark.parametrize("partitioning", ["keyed", "spread", "source"])
def test_large_micro_batches(make: Make, found: Found, monkeypatch: pytest.MonkeyPatch, partitioning: str) -> None:
    """In several tasks, through a shuffle or not."""
    monkeypatch.setattr(base, "SMALL_ROWS_MAX", 0)
    copy = make(
        partitioning=partitioning,
        source_options={"minPartitions": "3"},
        shape=lambda rows: rows.select("value", "key", "partition"),
    )
    copy.finish()
    assert all(found)
    assert max(len(scan.read.tasks) for scan in found if scan is not None) > 1
    check_once(copy.output(), range(ROWS), ordered=partitioning != "spread")


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        (lambda rows: rows.where("cast(string(value) as int) >= 20").select("key", "value"), range(20, ROWS)),
        (lambda rows: rows.selectExpr("key", "concat(string(value), ' ', offset) as value"), range(ROWS)),
        (lambda rows: rows.selectExpr("value as key", "value"), range(ROWS)),
        (lambda rows: rows.select("key", "value").limit(7), None),
        (lambda rows: rows.select("key", "value").coalesce(1), range(ROWS)),
        (lambda rows: rows.select("key", "value").union(rows.select("key", "value")), [*range(ROWS), *range(ROWS)]),
    ],
    ids=["filter", "expression", "other name", "limit", "coalesce", "union"],
)
def test_whatever_is_more_than_the_source(
    make: Make,
    found: Found,
    shape: Shape,
    kept: range | list[int] | None,
) -> None:
    """Spark computes it."""
    query = make(shape=shape)
    query.finish()
    assert found
    assert not any(found)
    if kept is None:
        assert len(query.output()) == 7
    else:
        check_once(query.output(), kept, ordered=False)


@pytest.mark.full
def test_rows_that_the_user_changed_on_their_way(make: Make, found: Found) -> None:
    """The query is a bare source; what its own foreachBatch gives to the sink is not."""
    copy = make()
    options = {"kafka.bootstrap.servers": copy.bootstrap}
    sink = semel.KafkaSink(options, topics=copy.outputs, pipeline=copy.pipeline)

    def some_of(rows: DataFrame, number: int) -> None:
        sink(rows.where("cast(string(value) as int) < 40"), number)

    writer = copy.read().select("key", "value").writeStream.foreachBatch(some_of)
    query = writer.option("checkpointLocation", copy.checkpoint).trigger(availableNow=True).start()
    assert outcome_of(query) is None
    assert found
    assert not any(found)
    check_once(copy.output(), range(40), ordered=True)


def _what_it_says(one: Got) -> tuple[Any, ...]:
    return one.key, one.value, one.headers, one.timestamp_ms


@pytest.mark.full
def test_both_ways_write_the_same_records(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, found: Found
) -> None:
    """Null keys and values, empty ones, headers and times."""
    source, one, other = new_topics(cluster.bootstrap, 2, 3, 3)
    client = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("none", None)]
        client.produce(source, partition=0, value=b"v", key=b"k%d" % number, headers=headers, timestamp=10**12 + number)
        client.produce(source, partition=1, value=None, key=None, timestamp=7)
        client.produce(source, partition=1, value=b"", key=b"")
    assert client.flush(30) == 0
    columns = ("key", "value", "headers", "timestamp")
    shapes: list[Shape] = [
        lambda rows: rows.select(*columns),
        lambda rows: rows.where("offset >= 0").select(*columns),
    ]
    results = []
    for target, shape in zip((one, other), shapes, strict=True):
        copy = Job(
            spark=spark,
            bootstrap=cluster.bootstrap,
            source=source,
            outputs=(target,),
            checkpoint=str(tmp_path / target),
            shape=shape,
            source_options={"includeHeaders": "true"},
        )
        copy.finish()
        results.append(sorted(map(_what_it_says, copy.output()), key=repr))
    assert [scan is not None for scan in found] == [True, False]
    assert len(results[0]) == 60
    assert results[0] == results[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailOnce(ReadPlanned):
    """Fails once, when a task has given some rows."""

    marker: str

    def rows(self, numbers: Iterable[int]) -> Batches:
        for batch in ReadPlanned(tasks=self.tasks).rows(numbers):
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if not Path(self.marker).exists():
                Path(self.marker).touch()
                raise RuntimeError("once")
            yield batch.slice(half)


@pytest.mark.full
@pytest.mark.parametrize("partitioning", ["spread", "keyed"])
def test_a_task_fails_in_its_middle(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitioning: str
) -> None:
    """E1: the micro-batch is aborted and run again from what was planned; without a plan of Spark's, and with one."""
    find, marker = BareScan.find, tmp_path / "failed"

    def failing(*given: Any) -> BareScan | None:
        scan = find(*given)
        assert scan is not None
        return replace(scan, read=FailOnce(tasks=scan.read.tasks, marker=str(marker)))

    monkeypatch.setattr(BareScan, "find", failing)
    monkeypatch.setattr("semel.sinks.base.SMALL_ROWS_MAX", 0)
    copy = make(source_options={"minPartitions": "3"}, partitioning=partitioning)
    steps: list[CommitStep] = []
    assert copy.run(steps.append) is None
    assert marker.exists()
    assert steps.count(CommitStep.OWNED) == steps.count(CommitStep.COMMITTED) + 1
    check_once(copy.output(), range(ROWS), ordered=False)


@pytest.mark.full
def test_records_that_are_gone_end_the_query(make: Make, found: Found) -> None:
    """Between planning and reading; nothing of the micro-batch is visible."""
    copy = make()

    def delete(step: CommitStep) -> None:
        if step is CommitStep.OPENED:
            ConfluentDriver(Endpoint(bootstrap=copy.bootstrap)).delete_records(copy.source, 0, 3)

    failure = copy.run(delete)
    assert any(found)
    assert failure is not None
    assert "DeleteRecords moved the start of the log to 3" in failure
    assert copy.output() == []
