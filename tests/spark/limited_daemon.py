"""Spark's Python worker daemon, as semel has it, with a limit on memory that the kernel holds every worker to.

Use: `spark.python.daemon.module=tests.spark.limited_daemon`.
Why: `spark.executor.pyspark.memory` limits the address space, of which the compiler's and Arrow's libraries alone take
     500 MB before a row is read, and the smallest part of that is ever memory. RLIMIT_DATA counts what a process may
     write to: its heap and whatever it maps for itself.
"""

import resource
import runpy

DATA_BYTES_MAX = 512 << 20

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))
    runpy.run_module("semel.spark.daemon", run_name="__main__")
