"""M28: the same pipeline, declared AT_MOST_ONCE or AT_LEAST_ONCE, does what it says when its driver dies."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.broker.runtime.intercept import DropResponse
from semel.sinks.base import CommitStep
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, number_of

__all__ = ["spark"]

NUMBERS = range(60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def copy(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Job:
    return Job.filled(spark, cluster.bootstrap, tmp_path, NUMBERS, partitioning="spread", format="kafka")


def counts(job: Job) -> Counter[int]:
    seen = Counter(map(number_of, job.output()))
    return Counter(seen[number] for number in NUMBERS)


def test_at_most_once_loses_what_was_under_way(copy: Job) -> None:
    copy.guarantee = "at_most_once"
    kill = KillAfter(CommitStep.COMMITTED)
    assert "Killed" in (copy.run(kill) or "")
    copy.finish()
    assert counts(copy) == {0: 60}
    fill(copy.bootstrap, copy.source, range(60, 70))
    copy.finish()
    check_once(copy.output(), range(60, 70), ordered=False)


def test_at_least_once_repeats_what_was_under_way(copy: Job) -> None:
    copy.guarantee = "at_least_once"
    kill = KillAfter(CommitStep.ROWS_WRITTEN)
    assert "Killed" in (copy.run(kill) or "")
    copy.finish()
    assert counts(copy) == {2: 60}


def test_exactly_once_does_neither(copy: Job) -> None:
    kill = KillAfter(CommitStep.ROWS_WRITTEN)
    assert "Killed" in (copy.run(kill) or "")
    copy.finish()
    assert counts(copy) == {1: 60}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("guarantee", "wanted"), [("at_most_once", {1}), ("at_least_once", {1, 2}), ("exactly_once", {1})]
)
def test_an_acknowledgement_is_lost(copy: Job, cluster: semel.Cluster, guarantee: str, wanted: set[int]) -> None:
    """The rows are sent again; only a producer id lets the broker see that it has them."""
    copy.guarantee = guarantee
    hook = cluster.intercept("Produce", DropResponse(), where=lambda seen: seen.client_id == "semel")
    copy.finish()
    assert hook.fired == 1
    assert set(counts(copy)) | {1} == wanted


@pytest.mark.quick(1)
@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_without_a_crash_every_record_once(copy: Job, guarantee: str) -> None:
    copy.guarantee = guarantee
    copy.finish()
    copy.finish()
    assert counts(copy) == {1: 60}
