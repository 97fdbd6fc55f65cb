"""Kafka -> Spark -> files: the first record of each value. The query keeps state, and Spark's file sink keeps a log.

python examples/jobs/first_of_each.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT
"""

import sys

import semel.spark

bootstrap, topic, checkpoint, output = sys.argv[1:]
spark = semel.spark.session("first of each", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
rows = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)
query = (
    rows.selectExpr("string(value) AS value")
    .dropDuplicates(["value"])
    .writeStream.format("json")
    .option("checkpointLocation", checkpoint)
    .option("path", output)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
