"""M30: the checkpoint is lost; the pipeline continues from its ledger, nothing lost, nothing twice."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.sinks.base import CommitStep
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, outcome_of

__all__ = ["spark"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def copy(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Job:
    return Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=30)


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", [CommitStep.ROWS_WRITTEN, CommitStep.OFFSETS_WRITTEN, CommitStep.COMMITTED])
def test_the_ledger_continues(copy: Job, step: CommitStep) -> None:
    """A crash in the second micro-batch and the loss of the checkpoint at once."""
    kill = KillAfter(step, nth=2)
    assert "Killed" in (copy.run(kill) or "")
    shutil.rmtree(copy.checkpoint)
    fill(copy.bootstrap, copy.source, range(60, 80))
    copy.source_options = {"startingOffsets": "ledger", "ledger": copy.pipeline}
    copy.finish()
    check_once(copy.output(), range(80), ordered=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("format_", ["semel", "kafka"])
def test_without_the_ledger_it_is_refused(copy: Job, format_: str) -> None:
    copy.finish()
    shutil.rmtree(copy.checkpoint)
    copy.format, copy.per_trigger = format_, None
    fill(copy.bootstrap, copy.source, range(60, 80))
    failure = copy.run() or ""
    assert "this query would begin at 0 and repeat records" in failure
    assert '.option("startingOffsets", "ledger")' in failure
    check_once(copy.output(), range(60), ordered=True)


@pytest.mark.full
def test_a_source_that_cannot_say_where_it_begins_is_refused(copy: Job) -> None:
    copy.finish()
    shutil.rmtree(copy.checkpoint)
    rate = copy.spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    other = semel.write_stream(
        rate.selectExpr("cast(value as string) value"),
        copy.sink(),
        pipeline=copy.pipeline,
        guarantee="exactly_once",
        checkpoint=copy.checkpoint,
    )
    assert "was last written by query" in (outcome_of(other) or "")
    check_once(copy.output(), range(60), ordered=True)


def test_the_old_checkpoint_comes_back(copy: Job) -> None:
    """After a new query took over, what it did since is not done again."""
    copy.finish()
    kept = copy.checkpoint
    copy.checkpoint = f"{kept}-new"
    copy.source_options = {"startingOffsets": "ledger", "ledger": copy.pipeline}
    fill(copy.bootstrap, copy.source, range(60, 80))
    copy.finish()
    copy.checkpoint, copy.source_options = kept, {}
    copy.finish()
    check_once(copy.output(), range(80), ordered=True)
