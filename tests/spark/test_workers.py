"""What a worker has imported is out of the garbage collector's sight; nobody else's process is touched."""

import gc
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from semel.spark.bare_scan import BareScan, ReadPlanned
from semel.spark.workers import _settle, settle_worker

MADE = 1_000
RUNS = 10


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    _settle.cache_clear()  # Spark may have given this task a worker that is settled already
    before = gc.get_freeze_count()
    first = [[number] for number in range(MADE)]
    settle_worker()
    settled = gc.get_freeze_count()
    second = [[number] for number in range(MADE)]
    settle_worker()
    for _ in batches:
        counts = {"before": before, "settled": settled, "again": gc.get_freeze_count(), "made": len(first + second)}
        yield pa.RecordBatch.from_pylist([counts])


def test_a_worker_is_settled_once(spark: SparkSession) -> None:
    (found,) = (
        spark.range(1, numPartitions=1).mapInArrow(_look, "before long, settled long, again long, made long").collect()
    )
    assert found.made == 2 * MADE
    assert found.settled - found.before >= MADE, "what was there before is out of sight"
    assert found.again <= found.settled, "what came after the first time is kept as well"


def _parent(_: object, rows: Iterable[object]) -> Iterator[pa.RecordBatch]:
    list(rows)
    yield pa.RecordBatch.from_pylist([{"parent": os.getppid()}])


def test_tasks_with_and_without_a_plan_of_sparks_share_their_workers(spark: SparkSession) -> None:
    """Else a plain copy would start a second daemon, with kernels and connections of its own."""
    planned = spark.range(2, numPartitions=2).mapInArrow(partial(_parent, None), "parent long").collect()
    plain = spark.sparkContext.parallelize([0, 1], 2).mapPartitionsWithIndex(_parent).collect()
    assert {row.parent for row in planned} == {batch["parent"][0].as_py() for batch in plain}


class _TellsWorker:
    def read(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"worker": os.getpid()}])


def _as_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def test_workers_of_a_copy_are_used_again(spark: SparkSession) -> None:
    """With their connections and their memory; a new one for every task would take longer than the task."""
    tasks: Any = (_TellsWorker(), _TellsWorker())
    scan = BareScan(read=ReadPlanned(tasks=tasks), node=None)
    found = [row.worker for _ in range(RUNS) for row in scan.run(spark.sparkContext, _as_read, None)]
    assert len(found) == 2 * RUNS
    assert len(set(found)) < len(found) / 2


def test_a_process_that_runs_no_task_is_left_alone() -> None:
    before = gc.get_freeze_count()
    settle_worker()
    assert gc.get_freeze_count() == before
