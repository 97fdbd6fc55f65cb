"""A driver that writes so many rows in one micro-batch into a table: `python table_memory_program.py <settings>`."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from semel.engine.java import spark_environment
from tests.support.spark_home import java_options

ROW_BYTES = 92


def main(settings: dict[str, Any]) -> None:
    os.environ.update(spark_environment())
    import semel
    import semel.spark

    folder = Path(settings["folder"])
    config = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.executor.extraJavaOptions": java_options(),
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": settings["daemon"],
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    spark = semel.spark.session("memory", master=settings["master"], config=config)
    source = {"rowsPerBatch": str(settings["rows"]), "numPartitions": "2"}
    rows = spark.readStream.format("rate-micro-batch").options(**source).load()
    rows = rows.selectExpr("value AS id", f"rpad(cast(value AS string), {ROW_BYTES}, 'x') AS note")
    sink = (
        semel.PostgresSink(settings["dsn"], settings["table"])
        if settings["sink"] == "postgres"
        else semel.DeltaSink(settings["table"])
    )
    semel.write_stream(
        rows,
        sink,
        pipeline=f"memory-{settings['rows']}",
        guarantee="exactly_once",
        checkpoint=str(folder / "checkpoint"),
        trigger={"availableNow": True},
    ).awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
