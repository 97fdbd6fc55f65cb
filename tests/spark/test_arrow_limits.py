"""The size of rows: a stream knows it from its last micro-batch, until a run fails; a batch job may guess it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.errors import SinkError
from semel.sinks import base
from semel.spark import arrow_limits, micro_batch
from tests.spark.sink_jobs import Job, check_once, fill, new_topics, read_all

ROWS = 60
PER_TRIGGER = 20
LARGEST = len(b"key 0") + len(b"59")


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


class Watched:
    """Notes what each job was told of its rows, and fails the jobs with these numbers."""

    def __init__(self, *failing: int) -> None:
        self.told: list[int] = []
        self._failing = failing

    @contextmanager
    def limited_by_rows(self, spark: SparkSession, row_bytes_max: int) -> Iterator[None]:
        self.told.append(row_bytes_max)
        with arrow_limits.limited_by_rows(spark, row_bytes_max):
            if len(self.told) - 1 in self._failing:
                raise SinkError("this job fails")
            yield


@pytest.fixture
def job(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A query of several micro-batches, each of which counts as large."""
    monkeypatch.setattr(base, "SMALL_ROWS_MAX", 0)
    source, output = new_topics(cluster.bootstrap, 3, 3)
    fill(cluster.bootstrap, source, range(ROWS))
    return Job(
        spark=spark,
        bootstrap=cluster.bootstrap,
        source=source,
        outputs=(output,),
        checkpoint=str(tmp_path),
        per_trigger=PER_TRIGGER,
        shape=lambda rows: rows.where("offset >= 0").select("key", "value", "partition"),
    )


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("guarantee", "told"),
    [
        ("exactly_once", [0, LARGEST, LARGEST]),
        # A run that fails for want of memory could not be undone, so bytes are counted.
        ("at_least_once", [0, 0, 0]),
        ("at_most_once", [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("partitioning", ["source", "spread", "keyed"])
def test_rows_of_a_known_size(
    job: Job, monkeypatch: pytest.MonkeyPatch, partitioning: str, guarantee: str, told: list[int]
) -> None:
    watched = Watched()
    monkeypatch.setattr(micro_batch, "limited_by_rows", watched.limited_by_rows)
    job.partitioning = partitioning
    job.guarantee = guarantee
    job.finish()
    check_once(job.output(), range(ROWS), ordered=False)
    assert watched.told[: len(told)] == told


@pytest.mark.full
def test_after_a_failure_the_size_is_forgotten(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(1)
    monkeypatch.setattr(micro_batch, "limited_by_rows", watched.limited_by_rows)
    job.partitioning = "spread"
    job.finish()
    check_once(job.output(), range(ROWS), ordered=False)
    assert watched.told[:4] == [0, LARGEST, 0, LARGEST]


@pytest.mark.full
@pytest.mark.parametrize("partitioning", ["spread", "keyed"])
@pytest.mark.parametrize("value_bytes", [100, 100_000])
def test_a_batch_job_guesses_from_cached_rows(
    spark: SparkSession,
    cluster: semel.Cluster,
    monkeypatch: pytest.MonkeyPatch,
    partitioning: str,
    value_bytes: int,
) -> None:
    watched = Watched()
    monkeypatch.setattr(micro_batch, "limited_by_rows", watched.limited_by_rows)
    (output,) = new_topics(cluster.bootstrap, 3)
    sink = semel.KafkaSink(cluster.bootstrap, output, partitioning=partitioning)
    made = spark.range(ROWS).selectExpr("cast(id as string) key", f"repeat('x', {value_bytes}) value")
    assert arrow_limits.guessed_row_bytes_max(made) == 0
    cached = made.cache()
    try:
        assert cached.count() == ROWS
        assert semel.write_batch(cached, sink, pipeline=f"guess-{output}", run_id="1") == ROWS
    finally:
        cached.unpersist()
    assert len(watched.told) == 1
    assert watched.told[0] >= value_bytes
    assert (arrow_limits.rows_in_batch(watched.told[0]) is None) is (value_bytes > 10_000)
    assert len(read_all(cluster.bootstrap, output)) == ROWS
