"""M31: two drivers of one pipeline: the older is fenced and says so, the newer is unharmed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.sinks.base import CommitStep
from semel.sinks.kafka.sink import KafkaOutput
from tests.spark.conftest import spark
from tests.spark.sink_jobs import Job, check_once, fill

__all__ = ["spark"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def copy(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> Job:
    return Job.filled(spark, cluster.bootstrap, tmp_path, range(60), format="kafka")


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "step", [CommitStep.OWNED, CommitStep.OPENED, CommitStep.ROWS_WRITTEN, CommitStep.OFFSETS_WRITTEN]
)
def test_the_older_one_is_fenced(copy: Job, step: CommitStep) -> None:
    """A newer driver takes over in the middle of the older one's micro-batch."""
    taken: list[int] = []
    newer = KafkaOutput(copy.bootstrap, copy.outputs[0]).open(copy.pipeline)

    def take_over(now: CommitStep) -> None:
        if now is step and not taken:
            taken.append(newer.own().producer_epoch)

    failure = copy.run(take_over) or ""
    assert taken
    assert "FencedError" in failure
    assert copy.output() == []
    newer.begin()
    newer.commit()
    newer.own()


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", [CommitStep.LEDGER_READ, CommitStep.OFFSETS_WRITTEN])
def test_at_most_once_the_rows_are_written_by_one(copy: Job, step: CommitStep, tmp_path: Path) -> None:
    """A newer driver does the same micro-batch while the older one is about to."""
    copy.guarantee = "at_most_once"
    newer = replace(copy, checkpoint=str(tmp_path / "newer"))
    taken: list[CommitStep] = []

    def take_over(now: CommitStep) -> None:
        if now is step and not taken:
            taken.append(now)
            newer.finish()

    failure = copy.run(take_over) or ""
    assert taken
    assert "a newer driver has taken over" in failure
    check_once(copy.output(), range(60), ordered=True)


def test_the_older_one_wakes_up_after_the_newer_has_finished(copy: Job) -> None:
    """The same checkpoint, copied: the newer driver does all there is; the older one then writes nothing."""
    done: list[int] = []
    newer = Job(
        spark=copy.spark,
        bootstrap=copy.bootstrap,
        source=copy.source,
        outputs=copy.outputs,
        checkpoint=copy.checkpoint,
        pipeline=copy.pipeline,
        format="kafka",
    )
    older = KafkaOutput(copy.bootstrap, copy.outputs[0]).open(copy.pipeline)
    done.append(older.own().producer_epoch)
    newer.finish()
    with pytest.raises(semel.SemelError, match="a newer driver has taken over"):
        older.own()
    fill(copy.bootstrap, copy.source, range(60, 80))
    newer.finish()
    check_once(newer.output(), range(80), ordered=True)


@pytest.mark.full
@pytest.mark.parametrize("step", [CommitStep.OPENED, CommitStep.OFFSETS_WRITTEN])
def test_a_second_query_takes_over(copy: Job, step: CommitStep, tmp_path: Path) -> None:
    """Two streaming queries of one pipeline: the newer does all there is, the older wakes up and says who is ahead."""
    copy.format, copy.per_trigger = "semel", 30
    newer = replace(
        copy,
        checkpoint=str(tmp_path / "newer"),
        source_options={"startingOffsets": "ledger", "ledger": copy.pipeline},
    )
    taken: list[CommitStep] = []

    def take_over(now: CommitStep) -> None:
        if now is step:
            taken.append(now)
            if len(taken) == 2:
                newer.finish()

    failure = copy.run(take_over) or ""
    assert len(taken) == 2
    assert "FencedError" in failure
    assert "a newer driver has taken over" in failure
    check_once(newer.output(), range(60), ordered=True)
    fill(copy.bootstrap, copy.source, range(60, 80))
    newer.finish()
    check_once(newer.output(), range(80), ordered=True)
    copy.per_trigger = None
    fill(copy.bootstrap, copy.source, range(80, 90))
    assert "this query would begin at" in (copy.run() or "")
