"""A driver whose queries have all written their rows, and of which Spark has not yet heard, is killed with its JVM."""

import json
import os
import signal
import sys
import threading

from semel.engine.java import spark_environment
from tests.spark.formats.writers import WAIT_S_MAX, Copy, add_jdbc_driver
from tests.support.spark_home import java_options

given = json.loads(sys.argv[1])
os.environ.update(spark_environment())
import semel.spark  # noqa: E402  (Spark's own variables come first)

config = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": java_options(),
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.local.dir": given["folder"] + "/local",
}
spark = semel.spark.session("killed", master="local[2]", config=config)
add_jdbc_driver(spark)
for one in given["copies"]:
    written = threading.Event()

    def hold(written: threading.Event = written) -> None:
        """Stay in front of the commit log."""
        written.set()
        threading.Event().wait()

    query = Copy(**one).start(spark, on_written=hold)
    assert written.wait(WAIT_S_MAX), query.exception()
os.killpg(os.getpgrp(), signal.SIGKILL)
