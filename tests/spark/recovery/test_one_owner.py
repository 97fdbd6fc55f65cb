"""One name, one sink, one driver: second calls, second sinks, and a driver that is taken over while it commits."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.sinks.base import CommitStep
from semel.spark.options import SourceOptions
from semel.spark.source import SemelStreamReader
from tests.spark.sink_jobs import Job, KillAfter, check_once, fill, new_topics, outcome_of, read_all


def start_both(job: Job, first: semel.KafkaSink, second: semel.KafkaSink) -> str | None:
    """A query of one's own that gives every micro-batch to two sinks."""

    def both(rows: DataFrame, micro_batch_id: int) -> None:
        first(rows, micro_batch_id)
        second(rows, micro_batch_id)

    rows = job.read().select("key", "value")
    writer = rows.writeStream.foreachBatch(both).option("checkpointLocation", job.checkpoint)
    return outcome_of(writer.trigger(availableNow=True).start())


@pytest.mark.quick(1)
@pytest.mark.parametrize("is_same_topic", [True, False], ids=["one topic", "two topics"])
def test_two_sinks_of_one_name(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, is_same_topic: bool
) -> None:
    """E17: the second would write nothing; it is refused, and with a name of its own it writes everything."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(30))
    (other,) = new_topics(cluster.bootstrap, 3)
    topics = (job.outputs[0], job.outputs[0] if is_same_topic else other)
    sinks = [semel.KafkaSink(cluster.bootstrap, topic, pipeline=job.pipeline) for topic in topics]
    refusal = start_both(job, *sinks) or ""
    assert "was called twice for micro-batch 0" in refusal
    assert "another pipeline name for the second sink, in a new checkpoint folder" in refusal
    job.checkpoint = str(tmp_path / "new")
    second = semel.KafkaSink(cluster.bootstrap, other, pipeline=f"{job.pipeline}-second")
    first = semel.KafkaSink(cluster.bootstrap, job.outputs[0], pipeline=job.pipeline)
    job.source_options = {"ledger": job.pipeline}
    failure = start_both(job, first, second)
    assert failure is None, failure
    check_once(read_all(cluster.bootstrap, job.outputs[0]), range(30), ordered=True)
    check_once(read_all(cluster.bootstrap, other), range(30), ordered=True)


def test_a_driver_is_taken_over_while_it_commits(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """E18: the newer one owns the pipeline before it reads the ledger, so the older one cannot move it any more."""
    older = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=10)
    newer = replace(
        older,
        checkpoint=str(tmp_path / "newer"),
        source_options={"startingOffsets": "ledger", "ledger": older.pipeline},
    )
    started: list[str | None] = []

    def take_over(step: CommitStep) -> None:
        if step is CommitStep.COMMITTED and not started:
            started.append(None)
            started[0] = newer.run()

    failure = older.run(take_over) or ""
    assert started == [None], "the newer one has to live"
    assert "a newer driver has taken over" in failure
    fill(newer.bootstrap, newer.source, range(60, 70))
    newer.finish()
    check_once(newer.output(), range(70), ordered=True)


@pytest.mark.full
def test_who_has_planned_from_the_ledger_cannot_be_overtaken(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path
) -> None:
    """E18: the newer one has only planned where it begins; the older one, about to commit, is fenced already."""
    older = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=10)
    given = {"startingOffsets": "ledger", "ledger": older.pipeline}
    newer = replace(older, checkpoint=str(tmp_path / "newer"), source_options=given)
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": older.source, **given}
    planned: list[object] = []

    def plan(step: CommitStep) -> None:
        if step is CommitStep.ROWS_WRITTEN and not planned:
            planned.append(SemelStreamReader(SourceOptions.parse(options, streaming=True)).initialOffset())

    failure = older.run(plan) or ""
    assert planned
    assert "a newer driver has taken over" in failure
    assert older.output() == []
    newer.finish()
    check_once(newer.output(), range(60), ordered=True)


@pytest.mark.full
def test_a_source_does_not_fence_its_own_sink(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """E18: after a crash the sink runs what was planned before the source plans again, from the ledger."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=20)
    job.source_options = {"ledger": job.pipeline}
    assert "Killed" in (job.run(KillAfter(CommitStep.ROWS_WRITTEN, nth=2)) or "")
    job.finish()
    check_once(job.output(), range(60), ordered=True)


@pytest.mark.full
def test_two_readers_of_one_topic(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """Where they stand differently they are refused before a row is written; one reader gives the same rows."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(60))
    slower = replace(job, per_trigger=20)
    job.shape = lambda rows: rows.select("key", "value").union(slower.read().select("key", "value"))
    failure = job.run() or ""
    assert f"two sources of one query read {job.source}-" in failure
    assert "one select with explode(array(…)); then a new checkpoint folder" in failure
    assert job.output("read_uncommitted") == []
    job.shape = lambda rows: rows.selectExpr("key", "explode(array(value, value)) value")
    job.checkpoint = str(tmp_path / "new")
    job.finish()
    check_once(job.output(), [*range(60), *range(60)], ordered=False)


@pytest.mark.full
def test_a_function_that_returns_early_is_noticed(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """E13: the micro-batch that it left out is missing in the ledger; the next one is refused, and a reset cures it."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(60), per_trigger=20)
    sink = semel.KafkaSink(cluster.bootstrap, job.outputs[0], pipeline=job.pipeline)

    def careless(rows: DataFrame, micro_batch_id: int) -> None:
        if micro_batch_id != 1:
            sink(rows, micro_batch_id)

    writer = job.read().select("key", "value").writeStream.foreachBatch(careless)
    failure = outcome_of(writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()) or ""
    assert "and lose records" in failure
    found = re.search(r"semel (pipeline reset .*?--to ledger --checkpoint \S+);", failure)
    assert found, failure
    assert main([*shlex.split(found[1]), "--yes"]) == ExitCode.HELD
    job.finish()
    check_once(job.output(), range(60), ordered=True)
