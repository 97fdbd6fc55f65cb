"""The crash points on Apache Kafka. One node: drivers die, transactions time out, the node dies. Three: nodes die.

"The coordinator is moved" is what happens when its node dies: another of the three takes over.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.engine.apache import ApacheCluster
from semel.errors import ConfigError, OutcomeUnknownError
from semel.sinks.base import CommitStep
from semel.wire.cluster import CoordinatorKind
from tests.spark.batch_jobs import ROWS, BatchJob
from tests.spark.matrix.replay import Replay
from tests.spark.matrix.test_brokers import coordinator_of, state_of
from tests.spark.sink_jobs import Job, KillAfter, Killed, check_once, fill, new_topics
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


@pytest.mark.full
@pytest.mark.parametrize("step", list(CommitStep))
@pytest.mark.parametrize("nth", [1, 2])
def test_a_driver_dies(spark: SparkSession, apache: ApacheCluster, step: CommitStep, nth: int) -> None:
    partitioning = "keyed" if nth == 1 else "spread"
    pipeline = Replay(spark=spark, bootstrap=apache.bootstrap, partitioning=partitioning)
    kill = KillAfter(step, nth=nth)
    assert pipeline.survive(kill) == [f"Killed: {step}"]
    assert kill.fired == 1
    pipeline.check()


@pytest.mark.full
def test_a_transaction_times_out(spark: SparkSession, apache: ApacheCluster) -> None:
    """E4: the broker aborts it before the driver commits; the micro-batch is run again, by the same driver."""
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


@pytest.mark.full
def test_the_checkpoint_is_deleted(spark: SparkSession, apache: ApacheCluster, tmp_path: Path) -> None:
    """E5: at the worst moment, with the ledger entry written and not committed."""
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


@pytest.mark.parametrize("step", list(CommitStep))
def test_a_batch_job_dies_and_its_run_is_repeated(spark: SparkSession, apache: ApacheCluster, step: CommitStep) -> None:
    """E19: with ids that look alike beside it; and an operator may delete the group of the last run."""
    job = BatchJob(spark, apache.bootstrap)
    assert job.run("🙂" * 500) == ROWS
    with pytest.raises(Killed):
        job.run("monday", on_step=KillAfter(step))
    assert job.run("monday") == (0 if step is CommitStep.COMMITTED else ROWS)
    assert [job.run("Monday"), job.run("monday"), job.run("🙂" * 500)] == [ROWS, 0, 0]
    job.forget("Monday")
    assert job.run("Monday") == 0
    job.check_written(3)


@pytest.mark.full
def test_runs_are_remembered_when_the_node_has_died(spark: SparkSession, apache: ApacheCluster) -> None:
    """E19: nothing but the log of offsets is left; the repeated run before makes sure that all is decided (E12)."""
    job = BatchJob(spark, apache.bootstrap)
    assert [job.run("monday"), job.run("tuesday"), job.run("monday")] == [ROWS, ROWS, 0]
    apache.kill_node(1)
    apache.start_node(1)
    apache.wait_until_ready()
    assert [job.run("monday"), job.run("tuesday")] == [0, 0]
    job.check_written(2)


@pytest.mark.full
def test_a_run_is_forgotten_when_the_broker_says_so(spark: SparkSession) -> None:
    """Apache Kafka forgets the group of a run after offsets.retention.minutes; the run is refused, not repeated."""
    forgetful = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    with ApacheCluster(brokers=1, config=QUICK | forgetful) as apache:
        job = BatchJob(spark, apache.bootstrap)
        with pytest.raises(ConfigError, match="this cluster forgets a run id after 1 minute"):
            job.run("monday")
        assert [job.run("monday", guarantee="at_least_once") for _ in range(2)] == [ROWS, 0]
        with pytest.raises(OutcomeUnknownError, match="run ids are remembered for 1 minute"):
            job.run("tuesday", planned_at=datetime.now(UTC))
        assert job.run("monday", planned_at=datetime.now(UTC)) == 0
        eventually(lambda: not job.is_kept("monday"), 240, what="the broker forgets the run")
        with pytest.raises(OutcomeUnknownError, match="run ids are remembered for 1 minute"):
            job.run("monday", planned_at=datetime.now(UTC))
        assert job.run("monday", guarantee="at_least_once") == ROWS
        job.check_written(2)


STEPS_OF_THE_NODE = [
    pytest.param(step, marks=() if step is CommitStep.ROWS_WRITTEN else pytest.mark.full) for step in CommitStep
]


@pytest.mark.full
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


KINDS = (CoordinatorKind.TRANSACTION, CoordinatorKind.GROUP)


@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "kind"),
    # One of the two at each step; on the embedded cluster `test_replicated` moves both at every step.
    [
        pytest.param(step, kind, marks=() if kind is KINDS[number % 2] else pytest.mark.soak)
        for number, step in enumerate(CommitStep)
        for kind in KINDS
    ],
)
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


@pytest.mark.full
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_dies_before_three_nodes(spark: SparkSession, three: ApacheCluster, step: CommitStep) -> None:
    pipeline = Replay(spark=spark, bootstrap=three.bootstrap, partitioning="spread", replicas=3)
    assert pipeline.survive(KillAfter(step, nth=2)) == [f"Killed: {step}"]
    pipeline.check()
