"""Rows on their way into a COPY: what the server has not taken yet is waited for, not kept."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

import psycopg
import pytest

from semel.engine.postgres import PostgresServer
from semel.sinks.postgres import rows
from semel.sinks.postgres.connection import send
from tests.unit.sinks.local_work import ROWS
from tests.unit.sinks.postgres.local_job import LocalJob


def test_what_a_slow_server_has_not_taken_is_waited_for(postgres: PostgresServer) -> None:
    """The session that copies stands still for a while; psycopg alone would keep all of it in memory."""
    data = bytes(64 << 20)
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE taken (all_of_it bytea)")
        backend = connection.info.backend_pid
        with suppress(psycopg.Error), connection.cursor().copy("COPY taken FROM STDIN (FORMAT binary)") as copy:
            os.kill(backend, signal.SIGSTOP)
            try:
                copy.write(data)
                assert connection.pgconn.flush() == 1, "psycopg has kept nothing: this shows nothing"
                threading.Timer(0, os.kill, (backend, signal.SIGCONT)).start()
                send(copy, b"")
                assert connection.pgconn.flush() == 0
            finally:
                os.kill(backend, signal.SIGCONT)


def test_rows_go_out_before_the_next_ones_come(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def note(copy: psycopg.Copy, data: memoryview) -> None:
        sent.append(len(data))
        send(copy, data)

    monkeypatch.setattr(rows, "send", note)
    job = LocalJob(postgres.conninfo)
    assert job.write(job.open(), 0) == ROWS
    assert sent
