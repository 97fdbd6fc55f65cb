"""E19: a run id is written once: after any number of other runs, whichever step a driver died at, for a known time."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.errors import ConfigError, FencedError, OutcomeUnknownError
from semel.sinks.base import CommitStep
from tests.spark.batch_jobs import ROWS, BatchJob
from tests.spark.sink_jobs import Job, KillAfter, Killed, check_once, new_topics, number_of
from tests.support.waiting import eventually

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def job(spark: SparkSession, cluster: semel.Cluster) -> BatchJob:
    return BatchJob(spark, cluster.bootstrap)


# --- many runs, many kinds of ids


def check_all_remembered(job: BatchJob, run_ids: list[str]) -> None:
    """Each is written the first time; then the oldest, and some others, write nothing."""
    for run_id in run_ids:
        assert job.run(run_id) == ROWS
    for run_id in (run_ids[0], run_ids[1], run_ids[len(run_ids) // 2], run_ids[-1]):
        assert job.run(run_id) == 0
    job.check_written(len(run_ids))


def test_a_run_is_remembered_after_others(job: BatchJob) -> None:
    """With ids so long that few would fill the metadata of one entry."""
    check_all_remembered(job, [f"{number:0480d}" for number in range(9)])


@pytest.mark.soak
def test_three_hundred_runs(job: BatchJob) -> None:
    check_all_remembered(job, [f"run {number}" for number in range(300)])


@pytest.mark.full
def test_ids_that_are_nearly_the_same_are_different_runs(job: BatchJob) -> None:
    """Also one named like the pipeline, and the longest there is in the widest letters."""
    run_ids = ["monday", "Monday", "mon day", job.pipeline, "月曜日", "🙂" * 500, f"{job.pipeline}:run:0"]
    check_all_remembered(job, run_ids)


@pytest.mark.parametrize("run_id", ["x" * 1_800, "x" * 4_000, "monday ", "", "mon\nday"])
def test_an_id_that_cannot_be_kept_is_refused(job: BatchJob, run_id: str) -> None:
    with pytest.raises(ConfigError, match="run_id"):
        job.run(run_id)
    job.check_written(0)


@pytest.mark.full
def test_two_pipelines_with_one_run_id(spark: SparkSession, cluster: semel.Cluster) -> None:
    for job in (BatchJob(spark, cluster.bootstrap), BatchJob(spark, cluster.bootstrap)):
        assert (job.run("monday"), job.run("monday")) == (ROWS, 0)
        job.check_written(1)


@pytest.mark.full
def test_a_run_is_refused_for_other_topics(job: BatchJob) -> None:
    """In whatever order they stand, these are the same ones; fewer are not, and the way out writes them."""
    (other,) = new_topics(job.bootstrap, 1)
    shaped = job.rows().selectExpr("key", "value", f"'{job.topic}' topic")
    for topics, written in (([job.topic, other], ROWS), ([other, job.topic], 0)):
        sink = semel.KafkaSink(job.bootstrap, topics=topics)
        assert semel.write_batch(shaped, sink, pipeline=job.pipeline, run_id="monday") == written
    with pytest.raises(ConfigError, match=f"was written to .*, and this sink writes to {job.topic}") as refused:
        job.run("monday")
    assert "another pipeline name for this sink, or another run_id" in str(refused.value)
    job.check_written(1)
    assert job.run("monday again") == ROWS
    job.check_written(2)


# --- drivers that die, and two at once

ORDERS = {
    "exactly_once": list(CommitStep),
    "at_least_once": [CommitStep.LEDGER_READ, CommitStep.ROWS_WRITTEN, CommitStep.COMMITTED],
    "at_most_once": [
        CommitStep.OWNED,
        CommitStep.LEDGER_READ,
        CommitStep.OFFSETS_WRITTEN,
        CommitStep.COMMITTED,
        CommitStep.ROWS_WRITTEN,
    ],
}


def run_until(job: BatchJob, step: CommitStep, guarantee: str) -> int:
    """Let a driver die after the step, then run the job again; gives what the second driver wrote."""
    kill = KillAfter(step)
    with pytest.raises(Killed):
        job.run("monday", guarantee=guarantee, on_step=kill)
    assert kill.seen == ORDERS[guarantee][: ORDERS[guarantee].index(step) + 1]
    written = job.run("monday", guarantee=guarantee)
    assert job.run("monday", guarantee=guarantee) == 0
    return written


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", ORDERS["exactly_once"])
def test_a_driver_dies_and_the_run_is_repeated(job: BatchJob, step: CommitStep) -> None:
    assert job.run("sunday") == ROWS
    assert run_until(job, step, "exactly_once") == (0 if step is CommitStep.COMMITTED else ROWS)
    job.check_written(2)


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", ORDERS["at_least_once"])
def test_at_least_once_the_rows_are_there(job: BatchJob, step: CommitStep) -> None:
    written = run_until(job, step, "at_least_once")
    assert written == (0 if step is CommitStep.COMMITTED else ROWS)
    job.check_written(2 if step is CommitStep.ROWS_WRITTEN else 1)


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", ORDERS["at_most_once"])
def test_at_most_once_no_row_is_there_twice(job: BatchJob, step: CommitStep) -> None:
    written = run_until(job, step, "at_most_once")
    decided = step in (CommitStep.COMMITTED, CommitStep.ROWS_WRITTEN)
    assert written == (0 if decided else ROWS)
    job.check_written(0 if step is CommitStep.COMMITTED else 1)


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", list(CommitStep))
def test_two_drivers_with_one_run_id(job: BatchJob, step: CommitStep) -> None:
    """The newer one runs from start to end while the older one is at this step."""
    newer: list[int] = []

    def take_over(now: CommitStep) -> None:
        if now is step and not newer:
            newer.append(job.run("monday"))

    if step is CommitStep.OWNED:
        # The older one has not looked yet: it finds that the run is written.
        assert job.run("monday", on_step=take_over) == 0
        assert newer == [ROWS]
    elif step is CommitStep.COMMITTED:
        assert job.run("monday", on_step=take_over) == ROWS
        assert newer == [0]
    else:
        with pytest.raises(FencedError, match=r"a newer driver has taken over|FENCED|INVALID_PRODUCER_EPOCH"):
            job.run("monday", on_step=take_over)
        assert newer == [ROWS]
    job.check_written(1)


# --- what is forgotten


def test_the_group_of_the_last_run_is_deleted(job: BatchJob) -> None:
    """The pipeline's own entry still names it."""
    assert job.run("monday") == ROWS
    job.forget("monday")
    assert job.run("monday") == 0
    job.check_written(1)


def test_the_group_of_an_older_run_is_deleted(job: BatchJob) -> None:
    """Nothing tells it from a run that was never written: deleting the group says "write it again"."""
    assert [job.run("monday"), job.run("tuesday")] == [ROWS, ROWS]
    job.forget("monday")
    assert [job.run("monday"), job.run("tuesday")] == [ROWS, 0]
    job.check_written(3)


@pytest.fixture
def forgetful() -> Iterator[Callable[[int], semel.Cluster]]:
    """Start a cluster that forgets offsets after so many minutes."""
    started: list[semel.Cluster] = []

    def start(minutes: int) -> semel.Cluster:
        config = {"offsets.retention.minutes": str(minutes), "offsets.retention.check.interval.ms": "50"}
        started.append(semel.Cluster(brokers=1, config={"log.retention.ms": "-1", **config}).start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()


def test_a_run_that_may_be_forgotten_is_refused(spark: SparkSession, forgetful: Callable[[int], semel.Cluster]) -> None:
    """Three days pass on a cluster that keeps offsets for two."""
    cluster = forgetful(2 * 24 * 60)
    job = BatchJob(spark, cluster.bootstrap)
    three_days_ago = datetime.now(UTC) - timedelta(days=3)
    assert [job.run("monday"), job.run("monday", planned_at=three_days_ago)] == [ROWS, 0]
    cluster.jump_clock(1, 3 * DAY_MS)
    cluster.restart(1)  # a running coordinator goes by a clock that does not jump
    eventually(lambda: not job.is_kept("monday"), what="the broker forgets the run")
    with pytest.raises(OutcomeUnknownError, match=r"planned 3 days ago, run ids are remembered for 2 days"):
        job.run("monday", planned_at=three_days_ago)
    job.check_written(1)
    assert job.run("thursday", planned_at=datetime.now(UTC)) == ROWS
    skipping = semel.KafkaSink(cluster.bootstrap, job.topic, ledger_missing="skip")
    running = semel.KafkaSink(cluster.bootstrap, job.topic, ledger_missing="run")
    for job.sink, written in ((skipping, 0), (running, ROWS), (running, 0)):
        assert job.run("tuesday", planned_at=three_days_ago) == written
    job.check_written(3)


@pytest.mark.full
def test_a_cluster_that_forgets_after_a_minute(spark: SparkSession, forgetful: Callable[[int], semel.Cluster]) -> None:
    job = BatchJob(spark, forgetful(1).bootstrap)
    for guarantee in ("exactly_once", "at_most_once"):
        with pytest.raises(ConfigError, match="this cluster forgets a run id after 1 minute"):
            job.run("monday", guarantee=guarantee)
        with pytest.raises(OutcomeUnknownError, match="remembered for 1 minute"):
            job.run("monday", guarantee=guarantee, planned_at=datetime.now(UTC))
    job.check_written(0)
    assert job.run("monday", guarantee="at_least_once") == ROWS


# --- a query beside it


@pytest.mark.full
def test_a_job_does_not_write_into_the_pipeline_of_a_query(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path
) -> None:
    """And does not stop the query either: it is refused before it owns anything."""
    copy = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=20)
    refused: list[str] = []

    def write_a_batch(step: CommitStep) -> None:
        # From the second micro-batch on: before the first there is no ledger that tells whose the pipeline is.
        if step is CommitStep.ROWS_WRITTEN and copy.ledger().last is not None:
            with pytest.raises(ConfigError, match="was last written by a streaming query") as caught:
                semel.write_batch(spark.sql("select 'x' value"), copy.sink(), pipeline=copy.pipeline, run_id="monday")
            refused.append(str(caught.value))

    failure = copy.run(write_a_batch)
    assert failure is None, failure
    assert len(refused) >= 2
    check_once(copy.output(), range(60), ordered=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
def test_a_query_does_not_write_into_the_pipeline_of_a_job(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, guarantee: str
) -> None:
    copy = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), guarantee=guarantee)
    rows = spark.range(100, 103, 1, 1).selectExpr("cast(id as string) value")
    assert semel.write_batch(rows, copy.sink(), pipeline=copy.pipeline, run_id="monday") == 3
    assert "was last written by a batch job, this is a streaming query" in (copy.run() or "")
    assert Counter(map(number_of, copy.output())) == Counter(range(100, 103))
    assert semel.write_batch(rows, copy.sink(), pipeline=copy.pipeline, run_id="monday") == 0
