"""What goes wrong in the tasks of a drilled pipeline, once: rows pass through, and in the middle a fault strikes.

A mark in a folder says that it has struck, so that it strikes once, and so that a drill knows. Tasks import this file
by its name in the workers of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.sinks.base import StageTask, Task

SCHEMA = "key binary, value binary"
ARMED, STRUCK = "armed", "struck"


def mark(folder: Path, name: str) -> bool:
    """Leave a mark; False when it is there already."""
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def fail_once(folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give half of a batch and raise, once after the fault was armed."""
    yield from _half_before(folder, batches, _raise)


def die_once(folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give half of a batch and end the worker's process, once after the fault was armed."""
    yield from _half_before(folder, batches, lambda: os._exit(17))


def fail_once_written(
    folder: Path, work: StageTask, task: Task, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do all of a sink's work and raise before Spark hears of it, once after the fault was armed."""
    given = list(work(task, batches))
    if (folder / ARMED).exists() and given and mark(folder, STRUCK):
        _raise()
    yield from given


def _raise() -> None:
    raise RuntimeError("the drill fails this task once")


def _half_before(
    folder: Path, batches: Iterator[pa.RecordBatch], strike: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        if (folder / ARMED).exists() and batch.num_rows and mark(folder, STRUCK):
            strike()
        yield batch.slice(half)
