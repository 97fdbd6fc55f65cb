"""Makes `format("semel")` known to Spark: it looks for top-level modules named `pyspark_…` that have a `DefaultSource`.

Without PySpark 4.2 there is none: one module that cannot be imported ends Spark's search for all of them.
"""

from contextlib import suppress

with suppress(ImportError):
    from semel.spark.source import SemelDataSource as DefaultSource

__all__ = ["DefaultSource"]
