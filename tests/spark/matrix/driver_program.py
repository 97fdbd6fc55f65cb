"""A driver of its own process, for the cells that kill one for good: `python driver_program.py <settings as JSON>`.

It runs a query over what is in the source topic. At the step it was told, it kills its whole process group:
itself and its JVM die at once, nothing is cleaned up.
"""

import json
import os
import signal
import sys

from semel.engine.java import spark_environment
from semel.sinks.base import CommitStep


def main(settings: dict[str, str]) -> None:
    os.environ.update(spark_environment())
    import semel
    import semel.spark

    spark = semel.spark.session(
        "driver",
        master=settings["master"],
        config={
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    rows = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "30")
        .load()
    )
    left = int(settings.get("nth", "0"))

    def on_step(step: CommitStep) -> None:
        nonlocal left
        if step == settings.get("step"):
            left -= 1
            if left == 0:
                os.killpg(0, signal.SIGKILL)

    query = semel.write_stream(
        rows.select("key", "value"),
        semel.KafkaSink(settings["bootstrap"], settings["output"], partitioning=settings["partitioning"]),
        pipeline=settings["pipeline"],
        guarantee="exactly_once",
        checkpoint=settings["checkpoint"],
        trigger={"availableNow": True},
        on_step=on_step,
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
