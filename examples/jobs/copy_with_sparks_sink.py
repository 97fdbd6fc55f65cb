"""Kafka -> Spark -> Kafka with Spark's own sink, which is at least once.

    python examples/jobs/copy_with_sparks_sink.py BOOTSTRAP TOPIC CHECKPOINT OUTPUT_TOPIC

Spark's connector is fetched by semel; on a cluster of your own, `--packages` of spark-submit brings it.
"""

import sys

import semel.spark
from semel.engine.jars import SPARK_CONNECTOR

bootstrap, topic, checkpoint, output = sys.argv[1:]
jars = ":".join(str(jar) for jar in SPARK_CONNECTOR.fetch())
spark = semel.spark.session("copy", master="local[2]", config={"spark.driver.extraClassPath": jars})
rows = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 25)
    .load()
)
query = (
    rows.select("key", "value")
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", output)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
