"""S014: the driver is killed between writing rows and writing down that it did, and runs the micro-batch again.

Spark itself runs both, with its own Kafka sink or with semel's. A driver that was killed there leaves a checkpoint
whose commit log lacks the micro-batch; that is what the second run begins with.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semel.drill.damage.records import (
    Damage,
    Reachable,
    new_topic,
    numbered,
    producer,
    read_all,
    send_each,
    tally,
)
from semel.engine.jars import SPARK_CONNECTOR
from semel.engine.java import spark_environment
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_S_MAX = 120


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """Both runs have the same micro-batch to write; only a sink with a ledger knows that it has the rows."""
    source, target = new_topic(cluster, "source"), new_topic(cluster, "target")
    send_each(producer(cluster, {}), source, numbered())
    with tempfile.TemporaryDirectory(prefix="semel-s014-") as folder:
        copy = _Copy(_session(), cluster.bootstrap, source, target, Path(folder))
        copy.run(with_ledger=followed)
        forgotten = copy.forget_commits()
        copy.run(with_ledger=followed)
    return tally(numbered(), read_all(cluster, target), fired=forgotten)


def _session() -> SparkSession:
    """The running session, or one with Spark's own Kafka connector on its class path."""
    from semel.spark.sessions import session  # noqa: PLC0415  (an optional part)

    os.environ.update(spark_environment())
    # Spark's own Kafka sink is in a connector that PySpark does not bring.
    jars = ":".join(str(jar) for jar in SPARK_CONNECTOR.fetch())
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return session("S014", master="local[2]", config={"spark.driver.extraClassPath": jars, **quiet})


@dataclass(frozen=True, slots=True)
class _Copy:
    """A query from topic to topic, which may be run again from its checkpoint."""

    spark: SparkSession
    bootstrap: str
    source: str
    target: str
    checkpoint: Path

    def run(self, *, with_ledger: bool) -> None:
        """Copy what the checkpoint says is left."""
        query = self._start_semel() if with_ledger else self._start_plain()
        if not query.awaitTermination(QUERY_S_MAX):
            query.stop()
            raise EnvironmentFailure(f"a query of one micro-batch takes longer than {QUERY_S_MAX} s")

    def forget_commits(self) -> int:
        """Take the commit log away; how many micro-batches were in it."""
        files = list((self.checkpoint / "commits").iterdir())
        for file in files:
            file.unlink()
        return sum(file.name.isdecimal() for file in files)

    def _rows(self) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.source, "startingOffsets": "earliest"}
        return self.spark.readStream.format("semel").options(**options).load().select("key", "value")

    def _start_plain(self) -> StreamingQuery:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.target}
        writer = self._rows().writeStream.format("kafka").options(**options)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def _start_semel(self) -> StreamingQuery:
        from semel.spark.sink import KafkaSink  # noqa: PLC0415
        from semel.spark.writing import write_stream  # noqa: PLC0415

        return write_stream(
            self._rows(),
            KafkaSink(self.bootstrap, self.target),
            pipeline=f"to-{self.target}",
            guarantee=Guarantee.EXACTLY_ONCE,
            checkpoint=str(self.checkpoint),
            trigger={"availableNow": True},
        )
