"""Kafka -> Spark -> files, with Spark's own file sink, whose log makes it exactly once.

python examples/jobs/copy_to_files.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT
"""

import sys

import semel.spark

bootstrap, topic, checkpoint, output = sys.argv[1:]
spark = semel.spark.session("copy to files", master="local[2]")
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
    .writeStream.format("json")
    .option("checkpointLocation", checkpoint)
    .option("path", output)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
