"""Kafka -> Spark -> Delta Lake, appended in `foreachBatch` with the `deltalake` package: at least once.

python examples/jobs/append_with_deltalake.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT
"""

import sys

import deltalake
from pyspark.sql import DataFrame

import semel.spark

bootstrap, topic, checkpoint, output = sys.argv[1:]
spark = semel.spark.session("append with deltalake", master="local[2]")
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)


def append(micro_batch: DataFrame, _: int) -> None:
    """One commit of the table, which says nothing of the micro-batch that it is."""
    deltalake.write_deltalake(output, micro_batch.toArrow(), mode="append")


query = (
    rows.selectExpr("string(value) AS value")
    .writeStream.foreachBatch(append)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
