"""Invariants of the sink that no crash is needed for: E6 empty micro-batches, E7 filters, E10 stateful queries.

Also what happens to a micro-batch whose query is stopped, and to the input of a task that fails.
"""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.broker.runtime.intercept import Delay
from semel.errors import SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import CommitStep, MicroBatch
from semel.sinks.kafka.sink import KafkaOutput
from semel.spark.micro_batch import MicroBatchRun
from semel.wire.topology import TopicPartition
from tests.spark.sink_jobs import STREAM_S_MAX, Job, check_once, fill, new_topics
from tests.support.waiting import eventually

SCHEMA = "key binary, value binary"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


def job(spark: SparkSession, cluster: semel.Cluster, folder: Path) -> Job:
    return Job.filled(spark, cluster.bootstrap, folder, range(60), per_trigger=30)


def test_an_empty_micro_batch_opens_no_transaction(spark: SparkSession, cluster: semel.Cluster) -> None:
    """E6: no rows and no new offsets; the same rows with new offsets do open one."""
    output, source = new_topics(cluster.bootstrap, 3, 1)
    session = KafkaOutput(cluster.bootstrap, output).open(f"empty-{output}")
    opened = cluster.intercept("AddPartitionsToTxn", Delay(ms=0), times=None)

    def run(number: int, before: int, offset: int) -> list[CommitStep]:
        steps: list[CommitStep] = []
        MicroBatchRun(
            session=session,
            micro_batch=MicroBatch(
                pipeline=session.pipeline,
                query_id="one",
                id=number,
                guarantee=Guarantee.EXACTLY_ONCE,
                offsets={TopicPartition(source, 0): offset},
                offsets_before={TopicPartition(source, 0): before},
            ),
            rows=spark.range(0).selectExpr("cast(id as string) value"),
            on_step=steps.append,
            rows_expected=0,
            may_run_again=lambda: True,
        ).execute()
        return steps

    assert run(0, 0, 5) == list(CommitStep)
    before = opened.fired
    assert before
    assert run(1, 5, 5) == [CommitStep.OWNED, CommitStep.LEDGER_READ]
    assert opened.fired == before
    assert run(2, 5, 6) == list(CommitStep)
    assert opened.fired > before
    cluster.disarm(opened)


@pytest.mark.full
def test_rows_that_a_filter_dropped_count_as_read(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path) -> None:
    """E7: the ledger moves on by what the source gave, not by what is left of it."""
    copy = job(spark, cluster, tmp_path)
    copy.shape = lambda rows: rows.where("false").select("key", "value")
    copy.finish()
    assert copy.output() == []
    assert sum(copy.ledger().offsets.values()) == 60


def _fail_once(marker: str, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        if b"%d" % number in batch.column("value").to_pylist() and not Path(marker).exists():
            Path(marker).touch()
            raise RuntimeError("once")


@pytest.mark.full
@pytest.mark.parametrize("number", [3, 57], ids=["first", "last"])
@pytest.mark.parametrize("stateful", [False, True], ids=["stateless", "stateful"])
def test_a_stateful_query_is_restarted_not_run_again(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, number: int, stateful: bool
) -> None:
    """E10: a task fails once. Without state the driver runs the micro-batch again; with state the query ends."""
    copy = job(spark, cluster, tmp_path)
    fill(cluster.bootstrap, copy.source, range(60))
    marker = tmp_path / "failed"

    def shape(rows: DataFrame) -> DataFrame:
        passed = rows.select("key", "value").mapInArrow(partial(_fail_once, str(marker), number), SCHEMA)
        return passed.dropDuplicates(["value"]) if stateful else passed

    copy.shape = shape
    failure = copy.run()
    assert marker.exists()
    assert (failure is not None) == stateful
    copy.finish()
    check_once(copy.output(), range(60) if stateful else [*range(60), *range(60)], ordered=False)


@pytest.mark.full
def test_a_stopped_query_does_not_run_its_micro_batch_again(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails after `stop()` is undone and left to the next start; it would go on behind the caller's back."""
    copy = job(spark, cluster, tmp_path)
    seen: list[CommitStep] = []
    reached, stopped, over = threading.Event(), threading.Event(), threading.Event()
    execute = MicroBatchRun.execute

    def execute_and_tell(run: MicroBatchRun) -> int:
        try:
            return execute(run)
        finally:
            over.set()

    def fail_once_stopped(step: CommitStep) -> None:
        seen.append(step)
        if step is CommitStep.ROWS_WRITTEN:
            reached.set()
            assert stopped.wait(STREAM_S_MAX)
            raise SinkError("as when Spark cancels the job")

    monkeypatch.setattr(MicroBatchRun, "execute", execute_and_tell)
    query = copy.start(fail_once_stopped)
    assert reached.wait(STREAM_S_MAX)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    eventually(lambda: not query.isActive, what="Spark stops the query")
    stopped.set()
    assert over.wait(STREAM_S_MAX)
    stopping.join(STREAM_S_MAX)
    assert seen == list(CommitStep)[: list(CommitStep).index(CommitStep.ROWS_WRITTEN) + 1]
    copy.finish()
    check_once(copy.output(), range(60), ordered=True)


def test_the_input_of_a_task_that_fails_ends_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    """Why no task commits: an expression fails near the end, and Python sees the rows before it and then the end."""
    rows, seen = 1_000_000, tmp_path / "seen"

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.write_text(str(sum(batch.num_rows for batch in batches)))
        yield pa.RecordBatch.from_pydict({"id": [0]})

    broken = spark.range(0, rows, 1, 1).selectExpr(f"if(id = {rows - 1}, raise_error('broken'), id) AS id")
    with pytest.raises(SparkRuntimeException, match="broken"):
        broken.mapInArrow(count, "id long").collect()
    assert 0 < int(seen.read_text()) < rows
