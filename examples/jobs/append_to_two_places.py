"""Kafka -> Spark -> Parquet files in two places, one after the other in `foreachBatch`: what a driver may die between.

python examples/jobs/append_to_two_places.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT SECOND_OUTPUT
"""

import sys

from pyspark.sql import DataFrame

import semel.spark

bootstrap, topic, checkpoint, *outputs = sys.argv[1:]
spark = semel.spark.session("append to two places", master="local[2]")
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)


def append(micro_batch: DataFrame, _: int) -> None:
    """A driver that dies behind the first write leaves rows there, which come again."""
    for output in outputs:
        micro_batch.write.mode("append").parquet(output)


query = (
    rows.selectExpr("string(value) AS value")
    .writeStream.foreachBatch(append)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
