"""What a Python worker of Spark does once, in the first task of semel's that it runs.

Why: Spark's workers collect garbage after every task, and Python does so by itself in between. What a task has imported
     stays for good, so it is put out of the collector's sight: that was a sixteenth of a worker's time.
     Rows arrive in pieces of some MiB. The C library gives such memory back at once, and whoever asks for it again gets
     new pages, which cost as much as the encoding of the rows; so some is kept.
"""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache

from pyspark import TaskContext

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
