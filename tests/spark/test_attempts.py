"""What the driver asks Spark about its jobs does not grow with the age of a query."""

from typing import Any

from pyspark.sql import SparkSession

from semel.spark.attempts import JobWatch

BOOKS_MS_MAX = 10_000


def test_a_watch_knows_only_the_jobs_of_its_own_block(spark: SparkSession) -> None:
    context = spark.sparkContext
    spark.range(3).collect()
    with JobWatch(context) as watch:
        spark.range(3).collect()
    with JobWatch(context) as other:
        spark.range(3).collect()
        spark.range(3).collect()
    spark.range(3).collect()
    scala: Any = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty(BOOKS_MS_MAX)
    assert (len(watch.jobs()), len(other.jobs())) == (1, 2)
    assert not set(watch.jobs()) & set(other.jobs())
    watch.check_single_attempts()
