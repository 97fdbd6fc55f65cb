"""The Python half of a driver as a process of its own, on the JVM of the test session: `replay_program.py <JSON>`.

It owns the transaction, as every driver does, and is killed with SIGKILL at the step it was told.
Why: a driver with a JVM of its own takes ten times as long to start; `test_kills.py` has those too.
"""

import json
import os
import signal
import sys
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from semel.sinks.base import CommitStep
from tests.spark.matrix.replay import Replay
from tests.spark.sink_jobs import KillAfter, Killed


def session() -> SparkSession:
    """A session on the JVM that the environment names."""
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    java: Any = gateway.jvm.org.apache.spark
    context = java.api.java.JavaSparkContext.fromSparkContext(java.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


def main(settings: dict[str, Any]) -> None:
    pipeline = Replay(spark=session(), **settings["pipeline"])
    try:
        pipeline.drive(KillAfter(CommitStep(settings["step"]), nth=settings["nth"]))
    except Killed:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
