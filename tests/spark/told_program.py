"""A program of a user: reads a stream to its end; options that change nothing are among those it sets."""

import sys

from pyspark.sql import DataFrame

import semel.spark

bootstrap, topic, checkpoint = sys.argv[1:]
spark = semel.spark.session("told", master="local[1]", config={"spark.ui.enabled": "false"})
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("Kafka.Group.Id", "mine")
    .option("kafka.max.poll.records", "7")
    .load()
)


def tell(found: DataFrame, _: int) -> None:
    sys.stdout.write(f"{found.count()} rows\n")


query = rows.writeStream.foreachBatch(tell).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
spark.stop()
