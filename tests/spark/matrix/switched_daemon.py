"""Spark's Python worker daemon, as semel has it, whose workers let any attempt of a task write.

Use: `spark.python.daemon.module=tests.spark.matrix.switched_daemon`.
Why: workers import the sink by themselves, so nothing that is replaced in the driver reaches them.
"""

import runpy

from pyspark import TaskContext

from semel.spark import attempts


def any_attempt() -> int:
    """What a task asks before it writes, without the refusal."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


if __name__ == "__main__":
    attempts.first_attempt_only = any_attempt
    runpy.run_module("semel.spark.daemon", run_name="__main__")
