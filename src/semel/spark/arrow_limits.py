"""How many rows go into one Arrow batch on their way from the JVM to the tasks that write.

Why: Spark limits such a batch by bytes, for which it adds up all buffers again after every row: a quarter of what the
     JVM does for rows of a hundred bytes. Where the largest row is known or guessed to be small, a number of rows is
     limit enough. Where nothing is known, or a run has failed, or one that fails could not be undone, Spark counts
     bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str(2**31 - 1)  # what makes Spark count no bytes
BATCH_BYTES = 16 << 20
ROWS_MIN = 1_000
ROWS_MAX = 8_000
LARGEST_TO_MEAN = 4  # what is guessed of rows whose mean size is known


def guessed_row_bytes_max(rows: DataFrame) -> int:
    """Guess the size of the largest row from Spark's statistics, which it has of cached rows only; 0 otherwise."""
    stats = rows._jdf.queryExecution().optimizedPlan().stats()
    count = int(str(stats.rowCount().get())) if stats.rowCount().isDefined() else 0
    return LARGEST_TO_MEAN * int(str(stats.sizeInBytes())) // count if count else 0


def rows_in_batch(row_bytes_max: int) -> int | None:
    """How many rows of at most this size, or None where Spark should go by bytes."""
    if not row_bytes_max:
        return None
    rows = min(ROWS_MAX, BATCH_BYTES // row_bytes_max)
    # So few rows that counting bytes costs nothing worth saving.
    return rows if rows >= ROWS_MIN else None


@contextmanager
def limited_by_rows(spark: SparkSession, row_bytes_max: int) -> Iterator[None]:
    """Count rows instead of bytes in the jobs of this block, if rows are small."""
    rows = rows_in_batch(row_bytes_max)
    if rows is None:
        yield
        return
    before = {name: spark.conf.get(name) for name in (ROWS, BYTES)}
    try:
        spark.conf.set(ROWS, str(rows))
        spark.conf.set(BYTES, NO_LIMIT)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
