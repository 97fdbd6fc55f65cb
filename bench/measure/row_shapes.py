"""The rows that the row of sinks writes: 100 bytes in two columns, and twenty columns of mixed types.

Rows are made from their number and kept in Spark's memory, so that everybody writes the same rows and nobody waits
while they are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from semel.errors import EnvironmentFailure

TASKS = 2
ROW_BYTES = 100
ID_BYTES = 8
COLUMNS = 20
OLD = "old"  # the text of a row that an upsert has to replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What rows look like: a number, which is their key, and other columns, one of them the text that is changed."""

    label: str
    columns: tuple[str, ...]
    text: str


NARROW = Shape(
    label=f"{ROW_BYTES}-byte rows",
    columns=("id", f"rpad(cast(id AS string), {ROW_BYTES - ID_BYTES}, 'x') AS text"),
    text="text",
)
WIDE = Shape(
    label=f"{COLUMNS} columns",
    columns=(
        "id",
        *(f"cast(id % {7 + number} AS int) AS i{number}" for number in range(4)),
        *(f"id * {3 + number} AS l{number}" for number in range(2)),
        *(f"double(id) / {3 + number} AS d{number}" for number in range(4)),
        *(f"cast(id / {100 + number} AS decimal(18,4)) AS n{number}" for number in range(2)),
        *(f"concat('text ', id % {100 + number}) AS t{number}" for number in range(3)),
        "if(id % 10 = 0, null, concat('now and then ', id)) AS t3",
        "timestamp_seconds(id) AS at",
        "date_add(date'2020-01-01', cast(id % 1000 AS int)) AS day",
        "id % 2 = 0 AS is_even",
    ),
    text="t0",
)
SHAPES = (NARROW, WIDE)


@contextmanager
def cached_rows(spark: SparkSession, shape: Shape, count: int) -> Iterator[DataFrame]:
    """Rows in memory, in as many pieces as tasks run at once."""
    made = spark.range(0, count, 1, TASKS).selectExpr(*shape.columns).cache()
    made.count()
    try:
        yield made
    finally:
        made.unpersist(blocking=True)


def check_count(who: str, found: int, wanted: int) -> None:
    """Refuse a figure that was got by losing or doubling rows."""
    if found != wanted:
        raise EnvironmentFailure(f"{who} left {found} rows in the table, not {wanted}")
