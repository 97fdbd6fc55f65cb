"""A batch job that a test runs again and again: few rows, one run id each time, an outside reader."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

import semel
from semel.sinks.base import Run
from semel.sinks.kafka.runs import run_group
from semel.wire.cluster import shared_cluster
from semel.wire.group_offsets import committed_offsets
from semel.wire.settings import WireSettings
from tests.spark.sink_jobs import CLIENT_S_MAX, check_once, new_topics, read_all

ROWS = 6


class BatchJob:
    """A job that writes the same few rows whenever it is run."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        (self.topic,) = new_topics(bootstrap, 2)
        self.pipeline = f"jobs-{self.topic}"
        self.bootstrap = bootstrap
        self.sink = semel.KafkaSink(bootstrap, self.topic)
        self.spark = spark

    def rows(self) -> DataFrame:
        """What every run writes."""
        return self.spark.range(0, ROWS, 1, 1).selectExpr("cast(id as string) key", "cast(id as string) value")

    def run(self, run_id: str, **options: object) -> int:
        """Run the job; gives how many rows were written."""
        given: dict[str, object] = {"pipeline": self.pipeline, "run_id": run_id, **options}
        write: Callable[..., int] = semel.write_batch
        return write(self.rows(), self.sink, **given)

    def check_written(self, times: int) -> None:
        """An outside reader finds every row so many times."""
        check_once(read_all(self.bootstrap, self.topic), [*range(ROWS)] * times, ordered=False)

    def forget(self, run_id: str) -> None:
        """Delete the run's group, as an operator may."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        group = run_group(self.pipeline, Run(id=run_id))
        admin.delete_consumer_groups([group])[group].result(CLIENT_S_MAX)

    def is_kept(self, run_id: str) -> bool:
        """Whether brokers know of the run: by its own group, or as the last one by the pipeline's."""
        known = shared_cluster(WireSettings.from_options({"kafka.bootstrap.servers": self.bootstrap}))
        groups = (run_group(self.pipeline, Run(id=run_id)), self.pipeline)
        return any(committed_offsets(known, group, deadline=known.deadline()) for group in groups)
