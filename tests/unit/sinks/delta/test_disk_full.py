"""A full disk under a Delta table: nothing of the micro-batch is visible, no half file stays, the next start goes on.

The table lies on a small file system of its own (tmpfs). Only root may mount one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from semel.errors import NoSpaceError
from tests.support.small_disk import SmallDisk, small_disk
from tests.unit.sinks.delta.local_table import LocalTable
from tests.unit.sinks.local_work import COLUMNS, ROWS, local_work

DISK_MB = 16


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(DISK_MB) as mounted:
        yield mounted


def rows_of(mb: int) -> list[pa.RecordBatch]:
    """Two tasks with so many megabytes each; the texts hardly compress."""
    return [
        pa.table(
            {
                "id": pa.array(range(first, first + mb * 1024)),
                "note": pa.array([os.urandom(512).hex() for _ in range(mb * 1024)]),
            }
        ).to_batches()[0]
        for first in (100_000, 200_000)
    ]


@pytest.mark.parametrize("free_mb", [2, 6], ids=["the first task", "the second task"])
def test_the_disk_of_the_table_is_full(disk: SmallDisk, free_mb: int) -> None:
    job = LocalTable(disk.folder / "orders")
    job.drive(1)
    before = job.files()
    rows = rows_of(4)
    disk.leave(free_mb)
    with pytest.raises(NoSpaceError, match="free space there"):
        job.write(job.open(), 1, work=local_work(rows, COLUMNS))
    assert job.ids() == list(range(ROWS)), "nothing of the micro-batch is visible"
    left = job.files() - before
    assert len(left) == (0 if free_mb < 4 else 1), "the file of the task that failed is gone"
    disk.make_room()
    assert job.write(job.open(), 1, work=local_work(rows, COLUMNS)) == 2 * 4 * 1024
    assert len(job.ids()) == ROWS + 2 * 4 * 1024


def test_the_disk_is_full_when_the_log_is_written(disk: SmallDisk) -> None:
    """The files are there, and the entry that would name them is not."""
    job = LocalTable(disk.folder / "orders")
    job.drive(1)
    work = local_work(rows_of(1), COLUMNS, before_results=lambda: disk.leave(0))
    with pytest.raises(NoSpaceError, match="the commit did not happen"):
        job.write(job.open(), 1, work=work)
    assert job.ids() == list(range(ROWS))
    disk.make_room()
    assert job.write(job.open(), 1, work=local_work(rows_of(1), COLUMNS)) == 2 * 1024
    assert len(job.ids()) == ROWS + 2 * 1024


def test_a_folder_that_is_full_from_the_start(disk: SmallDisk) -> None:
    disk.leave(0)
    job = LocalTable(Path(disk.folder, "orders"))
    with pytest.raises(NoSpaceError, match="could not be made"):
        job.drive(1)
    disk.make_room()
    job.drive(1)
    assert job.ids() == list(range(ROWS))
