"""Kafka -> Spark -> a table of PostgreSQL, appended by JDBC in `foreachBatch`: at least once.

    python examples/jobs/append_with_jdbc.py BOOTSTRAP TOPIC CHECKPOINT URL TABLE

The login is in the environment: SEMEL_JDBC_USER and SEMEL_JDBC_PASSWORD. The driver is fetched by semel; on your own
cluster `--packages` of spark-submit brings it.
"""

import os
import sys

from pyspark.sql import DataFrame

import semel.spark
from semel.engine.jars import POSTGRES_DRIVER

bootstrap, topic, checkpoint, url, table = sys.argv[1:]
jars = ":".join(str(jar) for jar in POSTGRES_DRIVER.fetch())
spark = semel.spark.session("append with JDBC", master="local[2]", config={"spark.driver.extraClassPath": jars})
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)
login = {"user": os.environ["SEMEL_JDBC_USER"], "password": os.environ["SEMEL_JDBC_PASSWORD"]}


def append(micro_batch: DataFrame, _: int) -> None:
    """Each task commits its own rows, and nobody looks whether they are there already."""
    micro_batch.write.jdbc(url, table, mode="append", properties={**login, "driver": "org.postgresql.Driver"})


query = (
    rows.selectExpr("string(value) AS value")
    .writeStream.foreachBatch(append)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
