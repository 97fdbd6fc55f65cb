"""M23: the disk of the PostgreSQL server is full: nothing of the micro-batch is visible, and the next start goes on.

The server's data lies on a small file system of its own (tmpfs), which a ballast file fills. Only root may mount one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import NoSpaceError, OutcomeUnknownError, SinkError
from tests.support.small_disk import SmallDisk, small_disk
from tests.unit.sinks.local_work import COLUMNS, ROWS, local_work
from tests.unit.sinks.postgres.local_job import LocalJob

DISK_MB = 256
WAL_SEGMENT_MB = 16
# Segments of the write-ahead log are removed soon, so that what is free depends on the ballast alone.
CONFIG = {"min_wal_size": "32MB", "max_wal_size": "64MB", "restart_after_crash": "on"}


@dataclass(frozen=True, slots=True)
class FullServer:
    """A server whose data lies on a small disk."""

    disk: SmallDisk
    server: PostgresServer

    def make_room(self) -> None:
        """As an operator does; a server that has ended meanwhile is started again."""
        self.disk.make_room()
        try:
            psycopg.connect(self.server.conninfo, connect_timeout=5).close()
        except psycopg.Error:
            self.server.kill()
            self.server.start_again()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullServer]:
    with small_disk(DISK_MB) as disk:
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(disk.folder))
            server = PostgresServer(config=CONFIG)
        with server:
            yield FullServer(disk, server)


def rows_of(mb: int) -> list[pa.RecordBatch]:
    """Two tasks with about so many megabytes in all; texts do not compress, and are not moved out of their rows."""
    count = mb * 1024
    notes = [os.urandom(500).hex() for _ in range(count)]
    half = count // 2
    whole = pa.table({"id": pa.array(range(1000, 1000 + count)), "note": pa.array(notes)})
    return [whole.slice(at, half).combine_chunks().to_batches()[0] for at in (0, half)]


def use_log(server: PostgresServer, *, left_mb: int) -> None:
    """Begin a segment of the write-ahead log, and use it up to so many megabytes."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        connection.execute("SELECT pg_switch_wal()")
        for _ in range(WAL_SEGMENT_MB - left_mb):
            connection.execute("SELECT pg_logical_emit_message(false, 'semel', repeat('x', 1024 * 1024))")


@pytest.mark.full
@pytest.mark.parametrize(
    ("rows_mb", "free_mb", "log_mb", "told"),
    [
        pytest.param(8, 4, 14, "staging rows for the table", id="while a task copies"),
        pytest.param(10, 15, 14, "moving rows into the table", id="while rows are moved"),
        pytest.param(3, 12, 1, None, id="in the log"),
    ],
)
def test_the_disk_of_the_server_is_full(
    full: FullServer, rows_mb: int, free_mb: int, log_mb: int, told: str | None
) -> None:
    job = LocalJob(full.server.conninfo, ddl="id bigint, note text")
    job.drive(1)
    rows = rows_of(rows_mb)
    use_log(full.server, left_mb=log_mb)
    full.disk.leave(free_mb)
    session = job.open()
    with pytest.raises((SinkError, OutcomeUnknownError), match=told) as caught:
        job.write(session, 1, work=local_work(rows, COLUMNS))
    session.let_go()
    if told is not None:
        assert isinstance(caught.value, NoSpaceError)
        assert "53100" in str(caught.value)
        assert "free space on the server" in str(caught.value)
    else:
        # The server cannot go on without its log: it ends all sessions, and perhaps itself.
        assert "PANIC" in full.server.log_tail()
    full.make_room()
    assert job.ids() == list(range(ROWS)), "nothing of the micro-batch is visible"
    session = job.open()
    count = sum(batch.num_rows for batch in rows)
    assert job.write(session, 1, work=local_work(rows, COLUMNS)) == count
    session.let_go()
    assert job.ids() == [*range(ROWS), *range(1000, 1000 + count)]
    assert job.commits() == [(1, 0, ROWS), (2, 1, count)]
    assert job.staging() == []
