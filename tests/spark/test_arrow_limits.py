"""From its second micro-batch on the sink knows how large rows are, and goes by it until something fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.errors import SinkError
from semel.spark import arrow_limits, micro_batch
from tests.spark.sink_jobs import Job, check_once, fill, new_topics

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
        self.told: list[int | None] = []
        self._failing = failing

    @contextmanager
    def limited_by_rows(self, spark: SparkSession, row_bytes_max: int | None) -> Iterator[None]:
        self.told.append(row_bytes_max)
        with arrow_limits.limited_by_rows(spark, row_bytes_max):
            if len(self.told) - 1 in self._failing:
                raise SinkError("this job fails")
            yield


@pytest.fixture
def job(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A query of several micro-batches, each of which counts as large."""
    monkeypatch.setattr(micro_batch, "SMALL_ROWS_MAX", 0)
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


@pytest.mark.parametrize(
    ("partitioning", "told"),
    [
        ("source", [None, LARGEST, LARGEST]),
        # What a shuffle brings are whole batches, which have to be weighed.
        ("keyed", [None, None, None]),
    ],
)
def test_rows_of_a_known_size(
    job: Job, monkeypatch: pytest.MonkeyPatch, partitioning: str, told: list[int | None]
) -> None:
    watched = Watched()
    monkeypatch.setattr(micro_batch, "limited_by_rows", watched.limited_by_rows)
    job.partitioning = partitioning
    job.finish()
    check_once(job.output(), range(ROWS), ordered=False)
    assert watched.told[: len(told)] == told


def test_after_a_failure_the_size_is_forgotten(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(1)
    monkeypatch.setattr(micro_batch, "limited_by_rows", watched.limited_by_rows)
    job.partitioning = "spread"
    job.finish()
    check_once(job.output(), range(ROWS), ordered=False)
    assert watched.told[:4] == [None, LARGEST, None, LARGEST]
