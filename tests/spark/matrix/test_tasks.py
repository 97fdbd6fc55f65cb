"""Tasks die in the middle of writing; what they wrote is never seen, and the rows are written again.

Why long: a Python worker that dies while Spark 4.2 hands it megabytes has once crashed the JVM (SIGSEGV in Spark's
          DirectByteBufferOutputStream.grow), which would take the session of every other Spark test with it.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.spark.arrow_limits import BYTES
from tests.spark.matrix.conftest import Make
from tests.spark.matrix.faulty_rows import WAIT_S_MAX, Scene
from tests.spark.sink_jobs import read_all
from tests.support.waiting import eventually

SCHEMA = "key binary, value string"
DIED = "died"
DIES_AFTER_ROWS = 10
FILLING = b" " + b"x" * 950_000


def _die_once(scene: Scene, landed_min: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give rows one by one, made big so that the first are sent before the last are there."""
    seen = 0
    for batch in batches:
        for row in batch.to_pylist():
            seen += 1
            big = (row["value"].encode() + FILLING).decode()
            yield pa.RecordBatch.from_pylist([{"key": row["key"], "value": big}], schema=batch.schema)
            if seen == DIES_AFTER_ROWS and scene.mark(DIED):
                eventually(lambda: scene.landed() >= landed_min, WAIT_S_MAX, what="rows of the task have landed")
                os._exit(17)


def _is_first(marker: str) -> bool:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@pytest.fixture
def _row_by_row(spark: SparkSession) -> Iterator[None]:
    """Spark hands big rows on one by one."""
    before = spark.conf.get(BYTES)
    spark.conf.set(BYTES, "512k")
    yield
    spark.conf.set(BYTES, str(before))


@pytest.mark.full
@pytest.mark.usefixtures("_row_by_row")
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_a_task_dies_in_the_middle(make: Make, tmp_path: Path, partitioning: str) -> None:
    """Behind a shuffle nothing is sent before the last task has encoded; else the task dies with rows in the output."""
    pipeline = make(partitioning)
    scene = Scene(folder=str(tmp_path), bootstrap=pipeline.bootstrap, output=pipeline.topic, faults=())
    landed_min = 1 if partitioning == "spread" else 0
    pipeline.shape = lambda rows: rows.mapInArrow(partial(_die_once, scene, landed_min), SCHEMA)
    assert pipeline.survive() == []
    assert scene.marked(DIED)
    pipeline.check()
    if partitioning == "spread":
        seen = read_all(pipeline.bootstrap, pipeline.topic, isolation="read_uncommitted")
        assert len(seen) > len(pipeline.output()), "the task died before it had written anything"


def _fail_once(marker: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    if _is_first(marker):
        raise RuntimeError("once")


@pytest.mark.quick(1)
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_a_task_fails(make: Make, tmp_path: Path, partitioning: str) -> None:
    marker = tmp_path / "failed"

    def shape(rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(partial(_fail_once, str(marker)), SCHEMA)

    pipeline = make(partitioning, shape=shape)
    assert pipeline.survive() == []
    assert marker.exists()
    pipeline.check()
