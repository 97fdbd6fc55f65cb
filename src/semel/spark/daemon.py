"""The Python worker daemon of Spark, with the kernels loaded before it forks its workers.

Use: `spark.python.daemon.module=semel.spark.daemon`.
Why: every worker is a fork of the daemon, so what is imported here is paid for once per executor, not once per worker;
     without it the first micro-batch waits for numba in each of them. Only the kernels: pyarrow starts a thread when
     it is imported, and a process with threads is not safe to fork. A failure to preload is written to stderr and is no
     reason to have no workers: they would then load the kernels themselves, or say why they cannot.
     What is loaded here stays for good, so it is hidden from the garbage collector (`gc.freeze`): Spark's workers
     collect after every task, and would spend 40 ms each time on looking through the kernels' compiler.
"""

import gc
import sys

from semel.protocol.kernels import preload


def _preload_or_tell() -> None:
    try:
        preload()
    except Exception as error:  # noqa: BLE001  (whatever it is, workers can still run)
        sys.stderr.write(f"semel.spark.daemon: kernels are not preloaded: {error!r}\n")


if __name__ == "__main__":
    _preload_or_tell()
    from pyspark.daemon import manager

    gc.freeze()
    manager()
