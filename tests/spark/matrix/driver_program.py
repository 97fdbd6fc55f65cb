"""A driver of its own process, for the cells that need one: `python driver_program.py <settings as JSON>`.

It runs a query over what is in the source topic, into one of semel's sinks or into Spark's own (`"sink": "spark"`). At
the step it was told, it kills its whole process group: itself and its JVM die at once, nothing is cleaned up. Faults in
tasks are in `faulty_rows.py`.
"""

import json
import logging
import os
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from semel.engine.jars import SPARK_CONNECTOR
from semel.engine.java import spark_environment
from semel.sinks.base import CommitStep, OnStep, Sink
from tests.spark.matrix.faulty_rows import SCHEMA, pass_rows, scene_of
from tests.spark.matrix.switches import switch_off_what_is_named
from tests.support.spark_home import java_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Settings = dict[str, Any]
PADDING = 1_400


def start_spark(settings: Settings) -> "SparkSession":
    os.environ.update(spark_environment())
    import semel.spark

    options = f"{java_options()} -XX:ErrorFile={settings['folder']}/jvm_%p.log"
    config = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": settings["folder"] + "/local",
        # A Kafka client that looks for a broker of yesterday could knock at a worker's port, and break it.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": ".",
        # Both executors are there before the first task starts, so that each holds a part of every shuffle.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        # Rows go from one Python function to the next some at a time, so that a fault meets a task in its middle.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    if settings.get("sink") == "spark":
        jars = ":".join(str(jar) for jar in SPARK_CONNECTOR.fetch())
        config |= {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
    config |= settings.get("conf", {}) | switch_off_what_is_named()
    return semel.spark.session("driver", master=settings["master"], config=config)


def read(spark: "SparkSession", settings: Settings) -> "DataFrame":
    """The source, with the faults that tasks will meet; behind a shuffle into so many tasks if there is to be one."""
    from pyspark.sql import functions as f

    rows = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.get("per_trigger", 30)))
        .option("minPartitions", str(settings.get("tasks", 1)))
        .load()
    )
    if settings.get("computed"):
        # Something for Spark to do, so that the rows go through the JVM.
        return rows.selectExpr("key", "concat(value, X'') as value")
    if not settings.get("faults"):
        return rows.select("key", "value")
    if settings.get("shuffle"):
        rows = rows.repartitionById(settings["shuffle"], f.expr(f"cast(string(value) as int) % {settings['shuffle']}"))
    padded = rows.selectExpr(
        "key", f"concat(string(value), ' ', repeat('x', {settings.get('padding', PADDING)})) as value"
    )
    return padded.mapInArrow(partial(pass_rows, scene_of(settings, settings["folder"])), SCHEMA)


def write(rows: "DataFrame", settings: Settings, on_step: OnStep) -> "StreamingQuery":
    if settings.get("sink") == "spark":
        writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        writer = writer.option("topic", settings["output"]).option("checkpointLocation", settings["checkpoint"])
        return writer.trigger(availableNow=True).start()
    import semel

    return semel.write_stream(
        rows,
        sink_of(settings),
        pipeline=settings["pipeline"],
        guarantee=settings.get("guarantee", "exactly_once"),
        checkpoint=settings["checkpoint"],
        trigger={"availableNow": True},
        on_step=on_step,
    )


def sink_of(settings: Settings) -> Sink:
    """Kafka, unless the settings name a table."""
    import semel

    match settings.get("sink"):
        case "postgres":
            return semel.PostgresSink(settings["dsn"], settings["table"])
        case "delta":
            return semel.DeltaSink(settings["table"])
        case _:
            return semel.KafkaSink(settings["bootstrap"], settings["output"], partitioning=settings["partitioning"])


def start_query(spark: "SparkSession", settings: Settings, on_step: OnStep) -> "StreamingQuery":
    """The pipeline: the same code on every cluster, of Kafka or of Spark."""
    return write(read(spark, settings), settings, on_step)


def killer(settings: Settings) -> OnStep:
    """Kills the process group the n-th time that a step is done, if the settings name one."""
    left = int(settings.get("nth", "0"))

    def on_step(step: CommitStep) -> None:
        nonlocal left
        if step == settings.get("step"):
            left -= 1
            if left == 0:
                os.killpg(0, signal.SIGKILL)

    return on_step


def main(settings: Settings) -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    start_query(start_spark(settings), settings, killer(settings)).awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
