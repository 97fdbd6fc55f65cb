"""`semel.stamp()`: the column that says which record of the source a row comes from; see `sinks/stamps`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import expr

from semel.sinks.stamps import STAMP_SQL


def stamp() -> Column:
    """A text such as `orders-0@17`, from the columns `topic`, `partition` and `offset` of a Kafka source.

    `source.withColumn("semel_stamp", semel.stamp())`, before those columns are dropped or mean the output.
    """
    return expr(STAMP_SQL)
