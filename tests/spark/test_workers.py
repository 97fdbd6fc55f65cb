"""What a worker has imported is out of the garbage collector's sight; nobody else's process is touched."""

import gc
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from semel.spark.workers import settle_worker

LEFT_MAX = 500  # what the task has made itself; its imports are thousands


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle_worker()
    settled = gc.get_freeze_count()
    settle_worker()
    for _ in batches:
        looked_at = len(gc.get_objects())
        yield pa.RecordBatch.from_pydict({"settled": [settled], "again": [gc.get_freeze_count()], "left": [looked_at]})


def test_a_worker_is_settled_once(spark: SparkSession) -> None:
    (found,) = spark.range(1, numPartitions=1).mapInArrow(_look, "settled long, again long, left long").collect()
    assert found.again <= found.settled, "what came after the first time is kept as well"
    assert found.left < LEFT_MAX


def test_a_process_that_runs_no_task_is_left_alone() -> None:
    before = gc.get_freeze_count()
    settle_worker()
    assert gc.get_freeze_count() == before
