"""`query.stop()` in the middle of a micro-batch: a stop is a stop, and the next start is exact.

Spark decides by the text of the error that leaves the sink whether a query was stopped or has failed, with a regular
expression that a long text drives into a StackOverflowError. So each test asks whether the query has an exception, what
Spark told its listeners, and whether any thread of the JVM died of an error.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, product
from pathlib import Path
from queue import Queue

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from semel.errors import SinkError
from semel.sinks.base import CommitStep
from semel.sinks.kafka.session import KafkaSession
from semel.spark.stopping import LOOKED_FOR
from semel.wire.answers import Backoff
from tests.spark.sink_jobs import CLIENT_S_MAX, STREAM_S_MAX, Job, check_once, new_topics, number_of, outcome_of
from tests.spark.stop_jobs import HoldAt, Witness, await_interrupt, witness
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("interrupted_program.py")
SCHEMA = "key binary, value binary"
# About 70 are PySpark's own, for a main thread that is interrupted while it waits for the JVM.
SAID_LINES_MAX = 150
Stop = Callable[[Witness, StreamingQuery], None]
WAYS = {
    "thread": Witness.stop_by_thread,
    "listener": Witness.stop_by_listener,
    "signal": Witness.stop_by_signal,
    "twice": Witness.stop_twice,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def seen(spark: SparkSession) -> Iterator[Witness]:
    with witness(spark) as watching:
        yield watching


def expression(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("key", "cast(concat(cast(value as string), ' !') as binary) value")


def new_job(spark: SparkSession, cluster: semel.Cluster, folder: Path, partitioning: str = "spread") -> Job:
    return Job.filled(
        spark, cluster.bootstrap, folder, range(60), per_trigger=30, partitioning=partitioning, shape=expression
    )


def stop_at(seen: Witness, job: Job, hold: HoldAt, stop: Stop) -> None:
    """Stop a query where it is held, and start it again."""
    query = job.start(hold)
    hold.hold(query)
    stop(seen, query)
    seen.check_stopped(query)
    job.finish()
    check_once(job.output(), range(60), ordered=job.partitioning == "keyed")


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", list(CommitStep))
def test_a_stop_after_each_step(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness, step: CommitStep
) -> None:
    stop_at(seen, new_job(spark, cluster, tmp_path), HoldAt(step), Witness.stop_by_thread)


@pytest.mark.full
@pytest.mark.parametrize("way", ["listener", "signal", "twice"])
def test_a_stop_by_anybody(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness, way: str
) -> None:
    stop_at(seen, new_job(spark, cluster, tmp_path), HoldAt(CommitStep.OPENED, nth=2), WAYS[way])


@pytest.mark.timeout(900)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "partitioning", [pytest.param("keyed", marks=pytest.mark.soak), pytest.param("spread", marks=pytest.mark.full)]
)
def test_a_stop_by_anybody_after_any_step(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, way: str, partitioning: str
) -> None:
    for step, nth in product(CommitStep, [1, 2]):
        with witness(spark) as seen:
            job = new_job(spark, cluster, tmp_path / f"{step}-{nth}", partitioning)
            stop_at(seen, job, HoldAt(step, nth=nth), WAYS[way])


@pytest.mark.full
@pytest.mark.parametrize("step", [CommitStep.LEDGER_READ, CommitStep.ROWS_WRITTEN, CommitStep.COMMITTED])
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
def test_a_stop_under_a_weaker_guarantee(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, guarantee: str, step: CommitStep
) -> None:
    """The query ends as cleanly, and the output has what the guarantee allows."""
    job = new_job(spark, cluster, tmp_path)
    job.guarantee = guarantee
    hold = HoldAt(step)
    with witness(spark) as seen:
        query = job.start(hold)
        hold.hold(query)
        seen.stop_by_thread(query)
        seen.check_stopped(query)
    job.finish()
    found = [number_of(one) for one in job.output()]
    assert set(found) == set(range(60)) if guarantee == "at_least_once" else len(found) == len(set(found))


def _wait_for(begun: str, go: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        Path(begun).touch()
        eventually(Path(go).exists, STREAM_S_MAX)
        yield batch


@pytest.mark.full
@pytest.mark.parametrize("way", list(WAYS))
def test_a_stop_in_the_middle_of_the_job(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness, way: str
) -> None:
    job = new_job(spark, cluster, tmp_path)
    begun, go = tmp_path / "begun", tmp_path / "go"
    job.shape = lambda rows: rows.select("key", "value").mapInArrow(partial(_wait_for, str(begun), str(go)), SCHEMA)
    query = job.start()
    try:
        eventually(begun.exists, STREAM_S_MAX, what="a task has begun")
        WAYS[way](seen, query)
    finally:
        go.touch()
    seen.check_stopped(query)
    job.finish()
    check_once(job.output(), range(60), ordered=False)


@pytest.mark.full
def test_a_job_that_nobody_waits_for_ends_before_its_rows_are_undone(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver begins its job after the stop, and is interrupted while it waits for it: the tasks are still there."""
    job = new_job(spark, cluster, tmp_path)
    begun, go = tmp_path / "begun", tmp_path / "go"
    job.shape = lambda rows: rows.select("key", "value").mapInArrow(partial(_wait_for, str(begun), str(go)), SCHEMA)
    hold = HoldAt(CommitStep.OPENED)
    undone: list[bool] = []
    abort = KafkaSession.abort

    def see_that_jobs_end(session: KafkaSession) -> None:
        undone.append(False)
        eventually(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), what="the job ends")
        undone[-1] = True
        abort(session)

    monkeypatch.setattr(KafkaSession, "abort", see_that_jobs_end)
    query = job.start(hold)
    hold.hold(query)
    seen.stop_by_thread(query)
    go.touch()
    seen.check_stopped(query)
    assert undone == [True]
    job.finish()
    check_once(job.output(), range(60), ordered=False)


def _die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    next(batches)
    os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


@pytest.mark.full
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_a_dead_worker_is_named(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, partitioning: str) -> None:
    """In every run of the micro-batch a worker dies: the error says so, and that nothing is lost or visible."""
    job = new_job(spark, cluster, tmp_path, partitioning)
    job.shape = lambda rows: rows.select("key", "value").mapInArrow(_die, SCHEMA)
    failure = job.run()
    assert failure is not None
    assert f"micro-batch 0 of pipeline '{job.pipeline}': a Python worker of Spark died" in failure
    assert "nothing of the micro-batch is visible" in failure
    assert job.output() == []
    job.shape = expression
    job.finish()
    check_once(job.output(), range(60), ordered=job.partitioning == "keyed")


@pytest.mark.full
def test_a_stop_before_the_sink_has_done_anything(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness
) -> None:
    """In the first micro-batch of all: the checkpoint is not even claimed. A user's own function calls the sink."""
    job = new_job(spark, cluster, tmp_path)
    sink = semel.KafkaSink(job.bootstrap, topics=job.outputs, pipeline=job.pipeline, partitioning=job.partitioning)
    queries: Queue[StreamingQuery] = Queue()
    reached = threading.Event()

    def write(rows: DataFrame, micro_batch_id: int) -> None:
        if not reached.is_set():
            reached.set()
            await_interrupt(queries.get(timeout=STREAM_S_MAX))
        sink(rows, micro_batch_id)

    def start() -> StreamingQuery:
        writer = expression(job.read()).writeStream.foreachBatch(write).trigger(availableNow=True)
        return writer.option("checkpointLocation", job.checkpoint).start()

    query = start()
    queries.put(query)
    assert reached.wait(STREAM_S_MAX)
    seen.stop_by_thread(query)
    seen.check_stopped(query)
    assert outcome_of(start()) is None
    check_once(job.output(), range(60), ordered=False)


@pytest.mark.full
def test_an_error_after_the_stop_is_no_failure(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness
) -> None:
    """Whatever goes wrong in a micro-batch that nobody waits for, the next start sees it again if it is real."""

    class HoldAndFail(HoldAt):
        def __call__(self, step: CommitStep) -> None:
            super().__call__(step)
            if self.reached.is_set():
                raise SinkError("too late", because=f"{LOOKED_FOR} {'o1.collect ' * 10_000}")

    stop_at(seen, new_job(spark, cluster, tmp_path), HoldAndFail(CommitStep.ROWS_WRITTEN), Witness.stop_by_thread)


@pytest.fixture
def mortal() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the client waits before it asks brokers again."""
    has_begun = threading.Event()
    wait = Backoff.wait

    def tell_and_wait(backoff: Backoff, error: semel.SemelError) -> None:
        has_begun.set()
        wait(backoff, error)

    monkeypatch.setattr(Backoff, "wait", tell_and_wait)
    return has_begun


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [
        CommitStep.OWNED,
        pytest.param(CommitStep.OPENED, marks=pytest.mark.full),
        pytest.param(CommitStep.OFFSETS_WRITTEN, marks=pytest.mark.full),
    ],
)
def test_a_stop_while_the_broker_is_dead(
    spark: SparkSession, mortal: semel.Cluster, tmp_path: Path, step: CommitStep, waiting: threading.Event
) -> None:
    """The driver waits for a broker, or begins to when it undoes what it did: neither lasts as long as it might."""
    job = new_job(spark, mortal, tmp_path)
    job.kafka_options = {"kafka.default.api.timeout.ms": str(STREAM_S_MAX * 10_000)}
    killed = threading.Event()

    def kill_the_broker(done: CommitStep) -> None:
        if done is step:
            mortal.kill(1)
            waiting.clear()
            killed.set()

    with witness(spark) as seen:
        query = job.start(kill_the_broker)
        assert killed.wait(STREAM_S_MAX)
        if step is not CommitStep.OPENED:  # then tasks wait, in other processes
            assert waiting.wait(STREAM_S_MAX)
        seen.stop_by_thread(query)
        seen.check_stopped(query)
    mortal.restart(1)
    job.finish()
    check_once(job.output(), range(60), ordered=False)


@pytest.mark.full
@pytest.mark.parametrize("step", [CommitStep.OPENED, CommitStep.OFFSETS_WRITTEN])
def test_an_interrupt_at_the_keyboard(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, step: CommitStep
) -> None:
    """The main thread waits for the query and stops it when it is interrupted, in a process of its own."""
    job = new_job(spark, cluster, tmp_path)
    job.shape = lambda rows: rows.select("key", "value")
    settings = {
        "bootstrap": job.bootstrap,
        "source": job.source,
        "output": job.outputs[0],
        "checkpoint": job.checkpoint,
        "pipeline": job.pipeline,
        "step": step,
    }
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(settings)],
        start_new_session=True,
        capture_output=True,
        timeout=STREAM_S_MAX,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        check=False,
    )
    said = ended.stderr.decode()
    assert ended.returncode == 0, said[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {"active": False, "error": None}
    assert "StackOverflowError" not in said
    assert said.count("\n") <= SAID_LINES_MAX, said
    job.finish()
    check_once(job.output(), range(60), ordered=False)


class Feed:
    """A producer that sends numbered records at a rate until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, per_s: int) -> None:
        self._client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic, self._partitions, self._per_s = topic, partitions, per_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent = 0

    def __enter__(self) -> "Feed":
        self._thread.start()
        return self

    def _send(self) -> None:
        numbers = count()
        while not self._over.wait(0.1):
            for _ in range(self._per_s // 10):
                number = next(numbers)
                self._client.produce(self._topic, value=b"%d" % number, partition=number % self._partitions)
                self.sent += 1
            self._client.poll(0)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        assert self._client.flush(CLIENT_S_MAX) == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("times", [pytest.param(50, marks=pytest.mark.full), pytest.param(200, marks=pytest.mark.soak)])
def test_stops_at_random_moments(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seen: Witness, times: int
) -> None:
    """A query with an expression over four partitions at 500 rows/s is stopped again and again."""
    moments = random.Random(times)
    source, output = new_topics(cluster.bootstrap, 4, 4)
    job = Job(
        spark=spark,
        bootstrap=cluster.bootstrap,
        source=source,
        outputs=(output,),
        checkpoint=str(tmp_path / "checkpoint"),
        partitioning="spread",
        shape=expression,
    )
    pause = threading.Event()
    with Feed(cluster.bootstrap, source, partitions=4, per_s=500) as feed:
        for _ in range(times):
            query = job.start(trigger={"processingTime": "0 seconds"})
            pause.wait(moments.uniform(0.1, 3.0))
            query.stop()
            seen.check_stopped(query)
    job.finish()
    check_once(job.output(), range(feed.sent), ordered=False)
