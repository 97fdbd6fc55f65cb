"""The Spark session of an audit: its own, or the one that runs already; stopped when the audit ends.

Why the JVM is ended here: a task that still runs while Spark stops makes its spill folder again behind Spark's back. So
     the folders that Spark spills to are removed once more, when nothing can write there any longer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from semel.cli.output import narrate
from semel.errors import EnvironmentFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
JVM_END_S_MAX = 10.0


@contextmanager
def session_for(master: str | None, conf: Sequence[str]) -> Iterator[SparkSession]:
    """A session for this audit, stopped when it ends; one that runs already is used and left alone."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    import semel.spark
    from semel.audit.failures import cause_of
    from semel.audit.plan import named_values
    from semel.engine.java import spark_environment

    running = SparkSession.getActiveSession()
    if running is not None:
        yield semel.spark.register(running)
        return
    for name, value in spark_environment().items():
        # What the user has set goes before it.
        os.environ.setdefault(name, value)
    config = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.log.level": "ERROR",
        **named_values("--conf", conf),
    }
    narrate("starting Spark")
    try:
        spark = semel.spark.session("semel audit", master=master, config=config)
    except (PySparkException, Py4JJavaError) as error:
        raise EnvironmentFailure(
            "Spark does not start",
            because=cause_of(str(error)),
            you_want="--conf and --master that fit this machine; spark.driver.memory is 2g by default",
        ) from error
    folders = _spill_folders(spark)
    try:
        yield spark
    finally:
        spark.stop()
        _end_jvm()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _spill_folders(spark: SparkSession) -> list[str]:
    """Where this process's Spark puts what does not fit into memory: one in each folder of spark.local.dir."""
    found = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirsString()  # type: ignore[union-attr]
    return [str(folder) for folder in found]


def _end_jvm() -> None:
    """End the JVM that was started for this session; it would end by itself only after this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # PySpark has no other way to it
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # a later session starts another one
    with suppress(Exception):  # it may have ended already, by the same Ctrl-C
        gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # which ends it
    try:
        process.wait(JVM_END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
