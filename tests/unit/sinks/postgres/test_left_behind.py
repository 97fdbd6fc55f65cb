"""What tasks and drivers leave in staging when they die: who drops it, and that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from time import monotonic
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import CommitStep, Task
from semel.sinks.postgres.rows import StageRows
from semel.sinks.postgres.staging import LEFT_S_MAX, drop_abandoned, find_abandoned, staging_prefix
from tests.unit.sinks.local_work import COLUMNS, ROWS, KillAt, Killed, local_work, orders
from tests.unit.sinks.postgres.local_job import LocalJob

ALL = list(range(3 * ROWS))
_attempts = count(1_000_000)


@pytest.fixture
def job(postgres: PostgresServer) -> LocalJob:
    """At least once: no driver of it owns anything."""
    return LocalJob(postgres.conninfo, guarantee=Guarantee.AT_LEAST_ONCE, ddl="id bigint, note text")


def staging_task(job: LocalJob) -> StageRows:
    """The work of a task, of a driver that has nothing else to do with it."""
    session = job.open()
    try:
        return session.staging_task(COLUMNS, f"the job before {next(_attempts)}")
    finally:
        session.let_go()


def run(task: StageRows, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(task(Task(number=0, attempt_id=next(_attempts)), batches))


def interrupted(act: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Something happens in the middle of a COPY."""
    first, *others = orders(0, ROWS)
    yield first
    act()
    yield from others


def leave_empty(job: LocalJob) -> None:
    """An attempt dies in the middle of its COPY, and cannot drop its table."""

    def cut() -> None:
        job.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE starts_with(query, 'COPY')"
            " AND strpos(query, %s) > 0",
            staging_prefix(job.pipeline),
        )

    with pytest.raises(SinkError, match="connection to PostgreSQL was lost"):
        run(staging_task(job), interrupted(cut))


def leave_full(job: LocalJob) -> None:
    """The attempts of a job end, and then its driver dies."""
    run(staging_task(job), iter(orders(0, ROWS)))


# --- nobody owns the pipeline


def test_what_a_dead_attempt_left_is_dropped_with_the_next_commit(job: LocalJob) -> None:
    """By the next driver at least once, which owns nothing; the rows of a longer COPY would fill the disk."""
    for number in range(3):
        leave_empty(job)
        assert len(job.staging()) == 1
        job.drive(number + 1)
        assert job.staging() == []
    assert job.ids() == ALL


def test_what_another_driver_has_staged_is_not_dropped(job: LocalJob) -> None:
    """Two drivers at least once: the one commits while rows of the other wait to be moved."""
    meddling = [True]

    def meddle() -> None:
        if meddling:
            meddling.pop()
            job.write(job.open(), 1)

    assert job.write(job.open(), 0, work=local_work(orders(0, ROWS), before_results=meddle)) == ROWS
    assert not meddling
    assert job.ids() == ALL[: 2 * ROWS]
    assert job.staging() == []


def test_what_a_task_still_fills_is_not_dropped(job: LocalJob) -> None:
    """The table looks empty to everybody else until the COPY ends."""
    told = run(staging_task(job), interrupted(lambda: job.drive(1)))
    (name,) = job.staging()
    assert job.execute(f"SELECT count(*) FROM {name}") == [(ROWS,)]
    assert [row["records"] for batch in told for row in batch.to_pylist()] == [ROWS]


def test_an_attempt_makes_its_table_again_that_was_dropped_before_its_copy(
    job: LocalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like one of a dead attempt at that moment. Nothing was sent yet, so the attempt need not fail."""
    others = [job]
    execute = psycopg.Cursor.copy

    def copy(cursor: psycopg.Cursor[Any], *given: Any, **more: Any) -> Any:
        if others:
            others.pop().drive(1)
            assert job.staging() == []
        return execute(cursor, *given, **more)

    task = staging_task(job)
    monkeypatch.setattr(psycopg.Cursor, "copy", copy)
    told = run(task, iter(orders(ROWS, 2 * ROWS)))
    assert [row["records"] for batch in told for row in batch.to_pylist()] == [ROWS]
    assert len(job.staging()) == 1
    assert job.ids() == ALL[:ROWS]


def test_rows_of_a_dead_driver_are_dropped_after_a_day(job: LocalJob) -> None:
    """Nothing tells them from those of a driver that lives."""
    leave_full(job)
    left = job.staging()
    for number in range(2):
        job.drive(number + 1)
        assert job.staging() == left
    age_by_hand(job, left[0], LEFT_S_MAX - 60)
    job.drive(3)
    assert job.staging() == left
    age_by_hand(job, left[0], LEFT_S_MAX + 60)
    job.write(job.open(), 3, work=local_work([]))
    assert job.staging() == []


def age_by_hand(job: LocalJob, table: str, seconds: int) -> None:
    """Move the time at which it was seen first."""
    ((comment, now_s),) = job.execute("SELECT obj_description(%s::regclass), extract(epoch FROM now())::bigint", table)
    words, _, seen = str(comment).rpartition(" ")
    assert int(seen) <= now_s
    job.execute(f"COMMENT ON TABLE {table} IS '{words} {now_s - seconds}'")


def test_a_job_that_fails_leaves_nothing(job: LocalJob) -> None:
    """Its driver lives and knows its own staging: rows that the table refuses would be staged at every start."""
    job.execute(f"ALTER TABLE {job.table} ADD CHECK (id < {ROWS})")
    job.drive(1)
    with pytest.raises(SinkError, match="check"):
        job.drive(2)
    assert job.staging() == []
    work = local_work(orders(0, ROWS), failures=[SinkError("another task failed")])
    session = job.open()
    with pytest.raises(SinkError, match="another task failed"):
        job.write(session, 1, work=work)
    assert len(job.staging()) == 3
    session.let_go()
    assert job.staging() == []


def test_what_cannot_be_dropped_does_not_undo_a_commit(job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is written in a transaction of its own, and the tables are left to the next commit."""
    leave_empty(job)

    def fail(*_: Any) -> None:
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr("semel.sinks.postgres.session.drop_abandoned", fail)
        job.drive(1)
    assert len(job.staging()) == 1
    job.drive(2)
    assert job.staging() == []
    assert job.ids() == ALL[: 2 * ROWS]
    assert job.commits() == [(1, 0, ROWS), (2, 1, ROWS)]


def test_a_table_that_was_filled_after_a_look_is_not_taken_for_empty(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where transactions see what was there when they began, unless they say otherwise."""
    words = "-c default_transaction_isolation=repeatable\\ read"
    job = LocalJob(psycopg.conninfo.make_conninfo(postgres.conninfo, options=words), ddl="id bigint, note text")
    task, session, looking = staging_task(job), job.open(), ExitStack()
    copy = psycopg.Cursor.copy

    def begin_and_copy(cursor: psycopg.Cursor[Any], *given: Any, **more: Any) -> Any:
        looking.enter_context(session._transaction("looking"))
        return copy(cursor, *given, **more)

    monkeypatch.setattr(psycopg.Cursor, "copy", begin_and_copy)
    with looking:
        run(task, iter(orders(0, ROWS)))
        connection = session._continued()
        (found,) = find_abandoned(connection, "public", staging_prefix(job.pipeline), but="nobody")
        drop_abandoned(connection, "public", found)
    session.let_go()
    assert len(job.staging()) == 1


# --- an owner


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_MOST_ONCE])
def test_an_owner_drops_rows_at_once(postgres: PostgresServer, guarantee: Guarantee) -> None:
    """Whoever staged them was fenced by it."""
    job = LocalJob(postgres.conninfo, guarantee=guarantee)
    leave_full(job)
    leave_empty(job)
    job.drive(1)
    assert job.staging() == []


def test_an_owner_does_not_wait_for_a_copy_that_has_begun_just_now(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of an older driver has no lock between its CREATE and its COPY, and then holds one until it ends.

    To wait for it would keep this driver from taking over, with the pipeline's row locked, and end it after a minute.
    """
    job = LocalJob(postgres.conninfo)
    leave_full(job)
    (name,) = job.staging()
    monkeypatch.setattr("semel.sinks.postgres.session.LOCK_WAIT_MS_MAX", 10_000)
    execute = psycopg.Connection.execute
    with psycopg.connect(job.dsn) as task:

        def begin_copy(connection: psycopg.Connection[Any], query: Any, *given: Any, **more: Any) -> Any:
            # The owner has looked, and now names the table for the first time.
            if name.encode() in (query if isinstance(query, bytes) else b""):
                execute(task, f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE".encode())
            return execute(connection, query, *given, **more)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", begin_copy)
            began = monotonic()
            job.drive(1)
            assert monotonic() - began < 10
        assert job.staging() == [name]
    job.drive(2)
    assert job.staging() == []
    assert job.ids() == ALL[: 2 * ROWS]


def test_a_killed_driver_leaves_its_staging_to_the_next_owner(postgres: PostgresServer) -> None:
    job = LocalJob(postgres.conninfo, attempts=2)
    with pytest.raises(Killed):
        job.drive(1, KillAt(CommitStep.ROWS_WRITTEN))
    assert len(job.staging()) == 6
    job.attempts = 1
    job.drive(1)
    assert job.staging() == []
