"""datacompy's Spark comparison of the same frames, where the package is installed: `pip install datacompy`.

It is no dependency of semel. It joins whole rows and counts those that one side alone has, so an altered record is one
on each side, and the second of two copies is one on the side that has it.
"""

from __future__ import annotations

import time
from importlib.util import find_spec

from pyspark.sql import DataFrame

HOW_TO_GET_IT = "datacompy is not installed, so it is not measured: pip install datacompy"


def is_installed() -> bool:
    """Whether it can be measured."""
    return find_spec("datacompy") is not None


def timed_datacompy(left: DataFrame, right: DataFrame) -> tuple[float, int, int]:
    """Seconds, and how many rows each side has alone."""
    from datacompy.spark import SparkSQLCompare  # type: ignore[import-not-found,unused-ignore]

    began = time.perf_counter()
    compared = SparkSQLCompare(left.sparkSession, left, right, join_columns=["key", "value"])
    alone = compared.df1_unq_rows.count(), compared.df2_unq_rows.count()
    taken_s = time.perf_counter() - began
    left.sparkSession.catalog.clearCache()  # it keeps what the two have in common
    return taken_s, *alone
