"""What a Python worker of Spark does once, in the first task of semel's that it runs.

Why: Spark's workers collect garbage after every task, and Python does so by itself in between. What a task has imported
     stays for good, so it is put out of the collector's sight: that was a sixteenth of a worker's time.
"""

from __future__ import annotations

import gc
import os
from functools import cache

from pyspark import TaskContext


def settle_worker() -> None:
    """Let the garbage collector forget what is loaded by now; only in a worker, and once."""
    if TaskContext.get() is not None:
        _freeze(os.getpid())


@cache
def _freeze(process_id: int) -> None:  # noqa: ARG001  (a fork has its own turn)
    gc.freeze()
