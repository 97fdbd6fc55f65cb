"""Makes `format("semel-postgres")` known to Spark, as `pyspark_semel` does for the source."""

from contextlib import suppress

with suppress(ImportError):
    from semel.spark.formats import PostgresFormat as DefaultSource

__all__ = ["DefaultSource"]
