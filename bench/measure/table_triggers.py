"""How long the triggers of a query take that brings few rows into a PostgreSQL table: from topic to table.

Both ways read with semel's source from the embedded broker, which has a process of its own, so that they differ in how
they write alone. The topic is filled before the query starts, and each trigger takes the same number of records.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semel
from bench.measure.database import Database
from bench.measure.librdkafka import QUIET, WAIT_S_MAX
from bench.measure.rounds import Figures
from bench.measure.row_shapes import TASKS, check_count
from bench.measure.spark_jobs import QUERY_S_MAX
from semel.errors import EnvironmentFailure

TRIGGER_ROWS = 500
WARM_TRIGGERS = 5
TICK_S = 0.05
TABLE = "trickled"
WHOLE, WRITING = "whole trigger", "its writing"


def topic_of_numbers(bootstrap: str, count: int) -> str:
    """A topic with so many numbers; it goes with the broker, which Ctrl-C ends before anything could be deleted."""
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, TASKS, 1)])[topic].result(WAIT_S_MAX)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % TASKS)
    if producer.flush(WAIT_S_MAX):
        raise EnvironmentFailure(f"{topic} could not be filled")
    return topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """So many triggers, from a topic that has the records for them."""

    spark: SparkSession
    database: Database
    bootstrap: str
    topic: str
    measured: int

    @property
    def all(self) -> int:
        """With those at the beginning, which do not count."""
        return self.measured + WARM_TRIGGERS

    def trigger_ms(self, who: str, *, with_semel: bool) -> Figures:
        """Medians over the triggers that count: the whole trigger, and the part in which rows are written."""
        source = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "startingOffsets": "earliest"}
        reader = self.spark.readStream.format("semel").options(**source).option("maxOffsetsPerTrigger", TRIGGER_ROWS)
        rows = reader.load().selectExpr("cast(string(value) AS bigint) AS id")
        self.database.make(TABLE, rows)
        self.database.settle()
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as checkpoint:
            query = self._started(rows, checkpoint, with_semel=with_semel)
            try:
                durations = self._wait_for(query)[WARM_TRIGGERS:]
            finally:
                query.stop()
        check_count(who, self.database.count(TABLE), self.all * TRIGGER_ROWS)
        return {
            WHOLE: statistics.median(one["triggerExecution"] for one in durations),
            WRITING: statistics.median(one["addBatch"] for one in durations),
        }

    def _started(self, rows: DataFrame, checkpoint: str, *, with_semel: bool) -> StreamingQuery:
        if with_semel:
            sink = semel.PostgresSink(self.database.server.conninfo, TABLE)
            name = f"bench-{uuid.uuid4().hex}"
            return semel.write_stream(rows, sink, pipeline=name, guarantee="exactly_once", checkpoint=checkpoint)
        options = self.database.jdbc(TABLE, {})

        def append(batch: DataFrame, _: int) -> None:
            batch.write.format("jdbc").options(**options).mode("append").save()

        return rows.writeStream.foreachBatch(append).option("checkpointLocation", checkpoint).start()

    def _wait_for(self, query: StreamingQuery) -> list[dict[str, int]]:
        deadline = time.monotonic() + QUERY_S_MAX
        while True:
            taken = [dict(row["durationMs"]) for row in query.recentProgress if row["numInputRows"]]
            if len(taken) >= self.all:
                return taken
            failure = query.exception()
            if failure is not None or time.monotonic() > deadline:
                raise EnvironmentFailure(f"only {len(taken)} of {self.all} triggers had rows", because=str(failure))
            time.sleep(TICK_S)
