"""One Spark session for all Spark tests: starting one takes seconds, and a process can have only one."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.engine.jars import SPARK_CONNECTOR
from semel.engine.java import spark_environment
from semel.spark import register
from semel.spark.sessions import WORKERS_SHARED
from tests.support.spark_home import java_options


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two local cores and Spark's own Kafka connector on the class path."""
    os.environ.update(spark_environment())
    folder: Path = tmp_path_factory.mktemp("spark")
    jars = ":".join(str(jar) for jar in SPARK_CONNECTOR.fetch())
    with warnings.catch_warnings():
        # PySpark's own modules warn when they are first used.
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("semel tests")
            # Hundreds of queries in one session: little is kept of those that have ended, and that little has room.
            .config("spark.driver.memory", "1536m")
            .config("spark.ui.retainedJobs", "50")
            .config("spark.ui.retainedStages", "50")
            .config("spark.ui.retainedTasks", "500")
            .config("spark.sql.ui.retainedExecutions", "10")
            .config("spark.sql.streaming.ui.retainedQueries", "5")
            .config("spark.driver.extraJavaOptions", f"{java_options()} -XX:ErrorFile={folder}/jvm_%p.log")
            .config("spark.driver.extraClassPath", jars)
            .config("spark.python.daemon.module", "semel.spark.daemon")
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config(WORKERS_SHARED, "1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield register(session)
    session.stop()
