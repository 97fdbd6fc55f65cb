"""Kafka -> Spark -> Parquet files, appended in `foreachBatch`: what most people write first, and at least once.

python examples/jobs/append_in_foreach_batch.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT
"""

import sys

from pyspark.sql import DataFrame

import semel.spark

bootstrap, topic, checkpoint, output = sys.argv[1:]
spark = semel.spark.session("append in foreachBatch", master="local[2]")
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)


def append(micro_batch: DataFrame, _: int) -> None:
    """Nobody looks whether these rows are there already."""
    micro_batch.write.mode("append").parquet(output)


query = (
    rows.selectExpr("string(value) AS value")
    .writeStream.foreachBatch(append)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
