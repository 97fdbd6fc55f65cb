"""The Spark session of an audit: its own, or the one that runs already; stopped when the audit ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from semel.cli.output import narrate
from semel.errors import EnvironmentFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"


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
            you_want="--conf and --master that fit to this machine; spark.driver.memory is 2g if nobody says",
        ) from error
    try:
        yield spark
    finally:
        spark.stop()
