"""A client of Spark Connect: a stream by the formats' names, whose last micro-batch Spark forgets, and a batch job."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

given = json.loads(sys.argv[1])
spark = SparkSession.builder.remote(given["remote"]).getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
source = (
    spark.readStream.format("semel")
    .option("kafka.bootstrap.servers", given["bootstrap"])
    .option("subscribe", given["topic"])
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "40")
    .load()
)
rows = source.selectExpr("cast(string(value) as bigint) AS number")
commits = Path(given["checkpoint"], "commits")
for _ in range(2):
    writer = rows.writeStream.format(given["format"]).options(**given["options"])
    stream = writer.option("guarantee", "exactly_once").option("checkpointLocation", given["checkpoint"])
    query = stream.option("pipeline", given["topic"]).trigger(availableNow=True).start()
    query.awaitTermination()
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    # As a driver leaves it that is killed after the rows were written: the next start repeats the micro-batch.
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink()
    sys.stdout.write(f"micro-batch {last}\n")
job = spark.range(1000, 1020).selectExpr("id AS number")
for _ in range(2):
    batch = job.write.format(given["format"]).options(**given["job_options"]).option("run_id", "monday")
    batch.option("pipeline", f"{given['topic']}-job").mode("append").save()
spark.stop()
