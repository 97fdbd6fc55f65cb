"""What semel does to a Python worker of Spark: once in the first task that it runs, and where an error leaves it.

Why: Spark's workers collect garbage after every task, and Python does so by itself in between. What a task has imported
     stays for good, so it is hidden from the collector (`gc.freeze`): to look at it took a sixteenth of its time.
     Rows arrive in pieces of some MiB. The C library gives such memory back at once, and a process that asks for it
     again gets new pages, which cost as much as the encoding of the rows; so some is kept.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyspark import TaskContext

from semel.errors import SemelError

# More than one piece of rows has, so that its memory is used again for the next.
KEPT_BYTES = 32 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def settle_worker() -> None:
    """Let the collector forget what is loaded by now, and the C library keep what is freed; in a worker only, once."""
    if TaskContext.get() is not None:
        _settle(os.getpid())


@cache
def _settle(process_id: int) -> None:  # noqa: ARG001  (a fork has its own turn)
    gc.freeze()
    keep_memory = getattr(ctypes.CDLL(None), "mallopt", None)
    if keep_memory is not None:  # only glibc has it, and only there is it needed
        keep_memory(_MMAP_THRESHOLD, KEPT_BYTES)
        keep_memory(_TRIM_THRESHOLD, KEPT_BYTES)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Show an error of semel's alone, without the traceback through Spark's worker: it says what happened.

    Spark's worker prints errors by this variable, and the process ends with the first.
    """
    try:
        yield
    except SemelError:
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
