"""One checkpoint under both formats: Spark's own Kafka source and semel's take turns, nothing is lost or doubled."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import CommitStep
from semel.spark import register
from tests.spark.sink_jobs import Job, KillAfter, check_once
from tests.spark.sink_jobs import fill as fill_numbers
from tests.spark.source_topics import STREAM_S_MAX, all_rows, drain, fill, load, new_topic, options
from tests.support.waiting import eventually

PER_TURN = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    register(spark)


@pytest.mark.full
def test_the_sources_take_turns_into_one_output(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """What comes out is counted by another client; several micro-batches in each turn, so that each plans its own."""
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(PER_TURN), per_trigger=PER_TURN // 2)
    turns = ("kafka", "semel", "kafka", "semel")
    for turn, source in enumerate(turns):
        job.format = source
        if turn:
            fill_numbers(cluster.bootstrap, job.source, range(turn * PER_TURN, (turn + 1) * PER_TURN))
        job.finish()
        check_once(job.output(), range((turn + 1) * PER_TURN), ordered=True)
    entries = [_entry(tmp_path / "checkpoint", number) for number in _micro_batches(tmp_path / "checkpoint")]
    written_by = ["semel" if any(key.startswith("#semel ") for key in entry) else "kafka" for entry in entries]
    assert [name for at, name in enumerate(written_by) if at == 0 or written_by[at - 1] != name] == list(turns)


@pytest.mark.full
def test_a_micro_batch_that_one_source_planned_is_read_by_the_other(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path
) -> None:
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(PER_TURN), format="kafka")
    job.finish()
    sources = ("kafka", "semel", "kafka")
    for turn, (planned_by, read_by) in enumerate(pairwise(sources), start=1):
        fill_numbers(cluster.bootstrap, job.source, range(turn * PER_TURN, (turn + 1) * PER_TURN))
        job.format = planned_by
        kill = KillAfter(CommitStep.ROWS_WRITTEN)
        assert job.run(kill) is not None
        assert kill.fired == 1
        job.format = read_by
        job.finish()
        check_once(job.output(), range((turn + 1) * PER_TURN), ordered=True)


@pytest.mark.full
def test_the_sources_take_turns_in_one_query(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    topic = new_topic(cluster)
    given = options(cluster, topic, startingOffsets="latest")
    drain(spark, given, tmp_path, source="semel")
    rows = []
    for turn, source in enumerate(("kafka", "semel", "kafka", "kafka", "semel")):
        fill(cluster, topic, 9, first=9 * turn)
        found = all_rows(drain(spark, given, tmp_path, source=source))
        assert len(found) == 9
        rows += found
    everything = load(spark, options(cluster, topic), source="kafka").collect()
    assert sorted(map(str, rows)) == sorted(map(str, everything))


@pytest.mark.full
def test_a_first_micro_batch_of_sparks_source_that_never_ended_is_left_to_it(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path
) -> None:
    """Where it began is known to Spark's source alone; from today's "latest" its records would be skipped."""
    topic = new_topic(cluster)
    given = options(cluster, topic, startingOffsets="latest")
    _fail_first(spark, given, tmp_path, cluster, topic)
    fill(cluster, topic, 9, first=9)
    with pytest.raises(
        StreamingQueryException, match="planned by Spark's own Kafka source and never finished"
    ) as caught:
        drain(spark, given, tmp_path)
    assert 'format("kafka")' in str(caught.value)
    theirs = all_rows(drain(spark, given, tmp_path, source="kafka"))
    fill(cluster, topic, 3, first=18)
    ours = all_rows(drain(spark, given, tmp_path))
    assert (len(theirs), len(ours)) == (18, 3)


def _fail_first(
    spark: SparkSession, given: dict[str, str], checkpoint: Path, cluster: semel.Cluster, topic: str
) -> None:
    """Plan a first micro-batch that has rows, and fail in it."""

    def fail(rows: DataFrame, micro_batch_id: int) -> None:
        raise RuntimeError("the sink is broken")

    frame = spark.readStream.format("kafka").options(**given).load()
    query = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(checkpoint)).start()
    try:
        # Spark's source settles on "latest" before it waits for records.
        eventually((checkpoint / "sources" / "0" / "0").exists, STREAM_S_MAX)
        fill(cluster, topic, 9)
        with pytest.raises(StreamingQueryException, match="the sink is broken"):
            query.awaitTermination(STREAM_S_MAX)
    finally:
        query.stop()


def _micro_batches(checkpoint: Path) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())


def _entry(checkpoint: Path, micro_batch_id: int) -> dict[str, object]:
    found: dict[str, object] = json.loads((checkpoint / "offsets" / str(micro_batch_id)).read_text().splitlines()[2])
    return found
