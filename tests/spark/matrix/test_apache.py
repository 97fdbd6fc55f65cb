"""The crash points on Apache Kafka. One node: drivers die, transactions time out, the node dies. Three: nodes die.

"The coordinator is moved" is what happens when its node dies: another of the three takes over.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.engine.apache import ApacheCluster
from semel.sinks.base import CommitStep
from semel.wire.cluster import CoordinatorKind
from tests.spark.matrix.replay import Replay
from tests.spark.matrix.test_brokers import coordinator_of, state_of
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, new_topics
from tests.support.waiting import eventually

QUICK = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCluster]:
    with ApacheCluster(brokers=1, config=QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def three() -> Iterator[ApacheCluster]:
    with ApacheCluster(brokers=3, config=QUICK) as started:
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


def test_a_transaction_times_out(spark: SparkSession, apache: ApacheCluster) -> None:
    """S4: the broker aborts it before the driver commits; the micro-batch is run again, by the same driver."""
    pipeline = Replay(
        spark=spark,
        bootstrap=apache.bootstrap,
        partitioning="keyed",
        sink_options={"transaction_timeout_ms": 2_000},
    )
    states: list[str] = []

    def wait_for_the_abort(step: CommitStep) -> None:
        if step is CommitStep.ROWS_WRITTEN and not states:
            eventually(lambda: state_of(pipeline) == "CompleteAbort", what="the coordinator aborts")
            states.append(state_of(pipeline))

    assert pipeline.survive(wait_for_the_abort) == []
    assert states == ["CompleteAbort"]
    pipeline.check()


def test_the_checkpoint_is_deleted(spark: SparkSession, apache: ApacheCluster, tmp_path: Path) -> None:
    """S5: at the worst moment, with the ledger entry written and not committed."""
    source, output = new_topics(apache.bootstrap, 3, 3)
    fill(apache.bootstrap, source, range(60))
    job = Job(
        spark=spark,
        bootstrap=apache.bootstrap,
        source=source,
        outputs=(output,),
        checkpoint=str(tmp_path / "first"),
        per_trigger=30,
    )
    kill = KillAfter(CommitStep.OFFSETS_WRITTEN, nth=2)
    assert "Killed" in (job.run(kill) or "")
    job.checkpoint = str(tmp_path / "second")
    job.source_options = {"startingOffsets": "ledger", "ledger": job.pipeline}
    job.finish()
    check_once(job.output(), range(60), ordered=True)


STEPS_OF_THE_NODE = [
    pytest.param(step, marks=() if step is CommitStep.ROWS_WRITTEN else pytest.mark.long) for step in CommitStep
]


@pytest.mark.parametrize("step", STEPS_OF_THE_NODE)
def test_the_node_dies(spark: SparkSession, apache: ApacheCluster, step: CommitStep) -> None:
    pipeline = Replay(spark=spark, bootstrap=apache.bootstrap, partitioning="keyed")
    fired: list[CommitStep] = []

    def kill_node(now: CommitStep) -> None:
        if now is step and not fired:
            fired.append(now)
            apache.kill_node(1)
            apache.start_node(1)
            apache.wait_until_ready()

    pipeline.survive(kill_node)
    assert fired
    pipeline.check()


@pytest.mark.long
@pytest.mark.parametrize("kind", [CoordinatorKind.TRANSACTION, CoordinatorKind.GROUP])
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_coordinator_is_moved(
    spark: SparkSession, three: ApacheCluster, step: CommitStep, kind: CoordinatorKind
) -> None:
    """Its node dies, also as the leader of partitions that rows go to, and stays away until all is done."""
    pipeline = Replay(spark=spark, bootstrap=three.bootstrap, partitioning="keyed", replicas=3)
    killed: list[int] = []

    def kill_node(now: CommitStep) -> None:
        if now is step and not killed:
            killed.append(coordinator_of(pipeline, kind))
            three.kill_node(killed[0])

    try:
        pipeline.survive(kill_node)
        assert len(killed) == 1
        pipeline.check()
    finally:
        for node in killed:
            three.start_node(node)
        three.wait_until_ready()


@pytest.mark.long
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_dies_before_three_nodes(spark: SparkSession, three: ApacheCluster, step: CommitStep) -> None:
    pipeline = Replay(spark=spark, bootstrap=three.bootstrap, partitioning="spread", replicas=3)
    assert pipeline.survive(KillAfter(step, nth=2)) == [f"Killed: {step}"]
    pipeline.check()
