"""How long Spark's triggers take when there is little to do: what a micro-batch costs by itself."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from pyspark.sql.streaming.query import StreamingQuery

import semel
from bench.measure.librdkafka import QUIET, WAIT_S_MAX
from bench.measure.spark_jobs import SPARK, Workload
from semel.errors import EnvironmentFailure

ROWS_PER_S = 500
TICK_S = 0.02
WARM_TRIGGERS = 5
VALUE = b"s" * 100


@contextmanager
def trickle(bootstrap: str, topic: str) -> Iterator[None]:
    """Send a few records every moment while the block runs."""
    ended = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})

    def send() -> None:
        number = 0
        while not ended.wait(TICK_S):
            for _ in range(int(ROWS_PER_S * TICK_S)):
                producer.produce(topic, VALUE, key=str(number % 1000).encode())
                number += 1
            producer.poll(0)
        producer.flush(WAIT_S_MAX)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def trigger_ms(work: Workload, who: str, triggers: int) -> dict[str, float]:
    """Medians over warm triggers that had rows, from topic to topic: the whole trigger, and the driver's part of it."""
    with (
        work.output(who) as target,
        tempfile.TemporaryDirectory(prefix="semel-bench-") as checkpoint,
        trickle(work.bootstrap, work.topic),
    ):
        query = _start(work, who, target, checkpoint)
        try:
            rows = _wait_for(query, triggers + WARM_TRIGGERS)
        finally:
            query.stop()
    durations = [row["durationMs"] for row in rows[WARM_TRIGGERS:]]
    planning = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets")
    return {
        "whole trigger": statistics.median(row["triggerExecution"] for row in durations),
        "before and after the job": statistics.median(sum(row.get(name, 0) for name in planning) for row in durations),
    }


def _start(work: Workload, who: str, target: str, checkpoint: str) -> StreamingQuery:
    options = work.source() | {"startingOffsets": "latest"}
    frame = work.spark.readStream.format("kafka" if who == SPARK else "semel").options(**options).load()
    rows = frame.select("key", "value")
    if who == SPARK:
        sink = work.spark_sink(who, target) | {"checkpointLocation": checkpoint}
        return rows.writeStream.format("kafka").options(**sink).start()
    name = f"bench-{uuid.uuid4().hex}"
    return semel.write_stream(
        rows, work.sink(who, target), pipeline=name, guarantee="exactly_once", checkpoint=checkpoint
    )


def _wait_for(query: StreamingQuery, triggers: int) -> list[dict[str, dict[str, int]]]:
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        rows = [dict(row) for row in query.recentProgress if row["numInputRows"]]
        if len(rows) >= triggers:
            return rows
        failure = query.exception()
        if failure is not None or time.monotonic() > deadline:
            raise EnvironmentFailure(f"only {len(rows)} of {triggers} triggers had rows", because=str(failure))
        time.sleep(TICK_S)
