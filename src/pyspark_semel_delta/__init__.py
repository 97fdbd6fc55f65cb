"""Makes `format("semel-delta")` known to Spark, as `pyspark_semel` does for the source."""

from contextlib import suppress

with suppress(ImportError):
    from semel.spark.formats import DeltaFormat as DefaultSource

__all__ = ["DefaultSource"]
