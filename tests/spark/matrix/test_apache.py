"""The shorter list of crash points on Apache Kafka, one node: drivers die after each step, the node dies once."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from semel.engine.apache import ApacheCluster
from semel.sinks.base import CommitStep
from tests.spark.matrix.replay import Replay
from tests.spark.sink_jobs import KillAfter


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCluster]:
    with ApacheCluster(brokers=1) as started:
        yield started


@pytest.mark.parametrize("step", list(CommitStep))
@pytest.mark.parametrize("nth", [1, 2])
def test_a_driver_dies(spark: SparkSession, apache: ApacheCluster, step: CommitStep, nth: int) -> None:
    partitioning = "keyed" if nth == 1 else "spread"
    pipeline = Replay(spark=spark, bootstrap=apache.bootstrap, partitioning=partitioning)
    kill = KillAfter(step, nth=nth)
    assert pipeline.survive(kill) == [f"Killed: {step}"]
    assert kill.fired == 1
    pipeline.check()


def test_the_node_dies_after_the_rows(spark: SparkSession, apache: ApacheCluster) -> None:
    pipeline = Replay(spark=spark, bootstrap=apache.bootstrap, partitioning="keyed")
    fired: list[CommitStep] = []

    def kill_node(step: CommitStep) -> None:
        if step is CommitStep.ROWS_WRITTEN and not fired:
            fired.append(step)
            apache.kill_node(1)
            apache.start_node(1)
            apache.wait_until_ready()

    pipeline.survive(kill_node)
    assert fired
    pipeline.check()
