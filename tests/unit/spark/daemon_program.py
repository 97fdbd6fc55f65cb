"""Run by the daemon's test in a process of its own: ask Spark workers what they had loaded when they started."""

import gc
import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def _report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        loaded = "semel.protocol.kernels.decode" in sys.modules
        seen = {"loaded": loaded, "parent": os.getppid(), "worker": os.getpid(), "frozen": gc.get_freeze_count()}
        yield pa.RecordBatch.from_pylist([seen])


def main() -> None:
    """Print one JSON line: what each task saw."""
    builder = SparkSession.builder.master("local[2]").appName("daemon")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if len(sys.argv) > 1:
        settings["spark.python.daemon.module"] = sys.argv[1]
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    rows = (
        session.range(0, 2, 1, 2).mapInArrow(_report, "loaded boolean, parent long, worker long, frozen long").collect()
    )
    sys.stdout.write(json.dumps([row.asDict() for row in rows]) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
