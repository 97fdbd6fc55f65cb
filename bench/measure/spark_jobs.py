"""What the Spark row does: the same jobs with semel and with Spark's own Kafka connector, in one session.

Everybody runs in the same JVM on the same cores, so a ratio of two figures of one round says something on any machine.
What was written is counted afterwards, outside of the measured time: losing or doubling is no way to be fast.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import upper
from pyspark.sql.streaming.query import StreamingQuery

import semel
import semel.spark
from bench.measure.cpu_time import used_s
from bench.measure.librdkafka import QUIET, WAIT_S_MAX
from bench.measure.rounds import Figures
from semel.engine.cache import cache_folder
from semel.engine.jars import SPARK_CONNECTOR, JarSet
from semel.engine.java import spark_environment
from semel.errors import EnvironmentFailure

PARTITIONS = 4
DRIVER_MEMORY = "2g"
SEGMENT_BYTES = 32 << 20  # only whole segments are removed when a topic is emptied
QUERY_S_MAX = 600
MICRO_BATCHES = 4
KINDS = {"key": "binary", "value": "binary", "partition": "int"}
READ, COPY, CHANGE, WRITE = "read", "copy", "copy in capitals", "write"
START = "start of a query"
# Spark's producer as somebody would set it who wants throughput: large batches, and time to fill them.
TUNED = {"kafka.batch.size": "524288", "kafka.linger.ms": "50", "kafka.buffer.memory": "134217728"}

SEMEL_SOURCE = "semel, source partition"
SEMEL_SPREAD = "semel, spread"
SEMEL_KEYED = "semel, keyed"
SPARK = "Spark"
SPARK_TUNED = "Spark, tuned"
EVERYBODY = (SEMEL_SOURCE, SEMEL_SPREAD, SEMEL_KEYED, SPARK, SPARK_TUNED)
PARTITIONING = {SEMEL_SOURCE: "source", SEMEL_SPREAD: "spread", SEMEL_KEYED: "keyed"}


@contextmanager
def started_session(*beside: JarSet) -> Iterator[SparkSession]:
    """Two local cores, Spark's connector and other jars on the class path, semel's source registered."""
    os.environ.update(spark_environment())
    # As in an installed package, modules are compiled once and not by every process.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache_folder() / "bytecode")
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as folder:
        settings = {
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.driver.extraClassPath": ":".join(
                str(jar) for jars in (SPARK_CONNECTOR, *beside) for jar in jars.fetch()
            ),
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
            "spark.local.dir": folder,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        spark = semel.spark.session("semel bench", master="local[2]", config=settings)
        spark.sparkContext.setLogLevel("OFF")  # a query that is stopped complains at length
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def fresh_topics(bootstrap: str, count: int, partitions: int = PARTITIONS) -> Iterator[list[str]]:
    """Topics that are gone afterwards."""
    names = [f"bench-{uuid.uuid4().hex[:12]}" for _ in range(count)]
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    for made in admin.create_topics([NewTopic(name, partitions, 1, config=config) for name in names]).values():
        made.result(WAIT_S_MAX)
    try:
        yield names
    finally:
        for deleted in admin.delete_topics(names).values():
            deleted.result(WAIT_S_MAX)


@contextmanager
def emptied(bootstrap: str, topic: str) -> Iterator[str]:
    """Give a topic and empty it afterwards; Spark keeps its producers, which a deleted topic would puzzle."""
    try:
        yield topic
    finally:
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        ends = [TopicPartition(topic, number, OFFSET_END) for number in range(PARTITIONS)]
        for deleted in admin.delete_records(ends).values():
            deleted.result(WAIT_S_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Rows of one size and codec, in a topic and in memory."""

    spark: SparkSession
    bootstrap: str
    topic: str
    rows: int
    codec: str
    outputs: Mapping[str, str]

    def output(self, who: str) -> AbstractContextManager[str]:
        """Where one of them writes: empty now, and empty again afterwards."""
        return emptied(self.bootstrap, self.outputs[who])

    def source(self) -> dict[str, str]:
        """Options of either source."""
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "startingOffsets": "earliest"}

    def sink(self, who: str, topic: str) -> semel.KafkaSink:
        """The sink of semel."""
        return semel.KafkaSink(self.bootstrap, topic, partitioning=PARTITIONING[who], codec=self.codec)

    def spark_sink(self, who: str, topic: str) -> dict[str, str]:
        """Options of Spark's sink."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic, "kafka.compression.type": self.codec}
        return options | (TUNED if who == SPARK_TUNED else {})


def format_of(who: str) -> str:
    """The name under which Spark finds the source."""
    return "kafka" if who in {SPARK, SPARK_TUNED} else "semel"


def made_rows(spark: SparkSession, rows: int, value_bytes: int) -> DataFrame:
    """Rows whose values compress to about half."""
    digits = -(-value_bytes // 64)
    value = f"substring(repeat(sha2(cast(id as string), 256), {digits}), 1, {value_bytes})"
    return spark.range(rows, numPartitions=PARTITIONS).selectExpr(
        "cast(cast(id % 10000 as string) as binary) key", f"cast({value} as binary) value"
    )


def timed_read(work: Workload, who: str) -> Figures:
    """Rows read in a second, into nothing."""
    frame = work.spark.read.format(format_of(who)).options(**work.source()).load()
    return _timed(work, READ, lambda: frame.write.format("noop").mode("overwrite").save())


def timed_copy(work: Workload, who: str, job: str = COPY) -> Figures:
    """Rows copied from topic to topic in a second by the micro-batches of one streaming query; and what its start took.

    semel's source is told which columns the query uses, which Spark does not tell it. A plain copy is read by the tasks
    that write; with an expression in between, Spark's JVM sees every row.
    """
    columns = ["key", "value", "partition"] if who == SEMEL_SOURCE else ["key", "value"]
    reader = work.spark.readStream.format(format_of(who)).options(**work.source())
    reader = reader.option("maxOffsetsPerTrigger", -(-work.rows // MICRO_BATCHES))
    if format_of(who) == "semel":
        reader = reader.schema(", ".join(f"{name} {KINDS[name]}" for name in columns))
    frame = reader.load().select(*columns)
    if job == CHANGE:
        frame = frame.withColumn("value", upper(frame.value.cast("string")))
    with work.output(who) as target, tempfile.TemporaryDirectory(prefix="semel-bench-") as checkpoint:
        queries: list[StreamingQuery] = []

        def run() -> None:
            queries.append(_start_copy(work, who, frame, target, checkpoint))
            _finish(queries[0])

        figures = _timed(work, job, run)
        check_count(work, target)
    whole_s = work.rows / figures[job]
    copying_s = sum(row["durationMs"]["triggerExecution"] for row in queries[0].recentProgress) / 1000
    return {**figures, job: work.rows / copying_s, START: (whole_s - copying_s) * 1000}


def _start_copy(work: Workload, who: str, frame: DataFrame, target: str, checkpoint: str) -> StreamingQuery:
    if format_of(who) == "kafka":
        options = work.spark_sink(who, target) | {"checkpointLocation": checkpoint}
        return frame.writeStream.format("kafka").options(**options).trigger(availableNow=True).start()
    return semel.write_stream(
        frame,
        work.sink(who, target),
        pipeline=f"bench-{uuid.uuid4().hex}",
        guarantee="exactly_once",
        checkpoint=checkpoint,
        trigger={"availableNow": True},
    )


def _finish(query: StreamingQuery) -> None:
    if not query.awaitTermination(QUERY_S_MAX):
        query.stop()
        raise EnvironmentFailure(f"a query had not ended after {QUERY_S_MAX} s")


def timed_write(work: Workload, who: str, cached: DataFrame) -> Figures:
    """Rows written in a second from memory."""
    with work.output(who) as target:
        if format_of(who) == "kafka":
            writer = cached.write.format("kafka").options(**work.spark_sink(who, target))
            figures = _timed(work, WRITE, writer.save)
        else:
            name, sink = f"bench-{uuid.uuid4().hex}", work.sink(who, target)
            figures = _timed(work, WRITE, lambda: semel.write_batch(cached, sink, pipeline=name, run_id="1"))
        check_count(work, target)
    return figures


def check_count(work: Workload, topic: str) -> None:
    """Refuse a figure that was got by losing or doubling records."""
    options = {**work.source(), "subscribe": topic}
    found = work.spark.read.format("semel").options(**options).load().count()
    if found != work.rows:
        raise EnvironmentFailure(f"{topic} holds {found} records, not {work.rows}")


def _timed(work: Workload, name: str, job: Callable[[], object]) -> dict[str, float]:
    """Rows in a second, and whose processor time it took, in seconds for a million rows."""
    used, began = used_s(), time.perf_counter()
    job()
    taken_s = time.perf_counter() - began
    spent = {cpu_row(name, who): (now_s - used[who]) / work.rows * 1e6 for who, now_s in used_s().items()}
    return {name: work.rows / taken_s, **spent}


def cpu_row(job: str, whose: str) -> str:
    """The name of a figure."""
    return f"{job}, CPU of {whose}"
