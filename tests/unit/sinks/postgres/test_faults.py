"""M23: real deaths. The driver's process is killed, connections are cut at every statement, the server dies."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import FencedError, OutcomeUnknownError, SinkError
from semel.sinks.base import CommitStep, Results, Task, WritePlan
from semel.sinks.postgres.rows import StageRows
from semel.sinks.postgres.session import PostgresSession
from semel.sinks.postgres.staging import Move
from semel.testing.local_work import LocalWork
from tests.unit.sinks.local_work import COLUMNS, ROWS, orders
from tests.unit.sinks.postgres.local_job import LocalJob

ROOT = Path(__file__).parents[4]
ALL = list(range(3 * ROWS))
PROGRAM_S_MAX = 120
STATEMENTS_MAX = 60


@pytest.fixture
def job(postgres: PostgresServer) -> LocalJob:
    return LocalJob(postgres.conninfo, ddl="id bigint, note text")


@pytest.mark.quick(1)
@pytest.mark.parametrize("step", list(CommitStep))
def test_the_process_of_a_driver_is_killed(job: LocalJob, step: CommitStep) -> None:
    program = [sys.executable, "-m", "tests.unit.sinks.postgres.killed_driver", job.dsn, job.table, step.value, "2"]
    ended = subprocess.run(program, cwd=ROOT, timeout=PROGRAM_S_MAX, check=False, capture_output=True)
    assert ended.returncode == -9, ended.stderr.decode()
    job.drive(3)
    assert job.ids() == ALL
    assert job.commits() == [(1, 0, ROWS), (2, 1, ROWS), (3, 2, ROWS)]
    assert job.staging() == []


class Cut:
    """Ends the session of a connection on the server before its nth statement or commit."""

    def __init__(self, dsn: str, at: int, patch: pytest.MonkeyPatch) -> None:
        self._dsn, self._at = dsn, at
        self.seen = 0
        self._execute, self._commit = psycopg.Connection.execute, psycopg.Connection.commit
        cut = self

        def execute(connection: psycopg.Connection[Any], *given: Any, **more: Any) -> Any:
            cut.count(connection)
            return cut._execute(connection, *given, **more)

        def commit(connection: psycopg.Connection[Any]) -> None:
            cut.count(connection)
            cut._commit(connection)

        patch.setattr(psycopg.Connection, "execute", execute)
        patch.setattr(psycopg.Connection, "commit", commit)

    def count(self, connection: psycopg.Connection[Any]) -> None:
        self.seen += 1
        if self.seen == self._at:
            with psycopg.connect(self._dsn, autocommit=True) as other:
                self._execute(other, "SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))


@pytest.mark.full
def test_a_connection_is_cut_at_every_statement(job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, in one long life of a pipeline: each micro-batch is there once, whatever was cut."""
    for at in range(1, STATEMENTS_MAX):
        with monkeypatch.context() as patch:
            cut = Cut(job.dsn, at, patch)
            target = job.done + 1
            while job.done < target:
                try:
                    job.drive(target)
                except (SinkError, OutcomeUnknownError):
                    assert cut.seen >= at, "nothing else goes wrong"
        if cut.seen < at:
            break
    else:
        raise AssertionError("there is no end of statements")
    assert at > 20
    assert job.ids() == list(range(job.done * ROWS))
    assert [row[2] for row in job.commits()] == [ROWS] * job.done
    assert job.staging() == []


def test_every_transaction_may_have_another_session(job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pooler in transaction mode: nothing is kept in a session between two of them."""
    begun = PostgresSession._begun
    sessions: list[int] = []

    def begin_anew(session: PostgresSession) -> psycopg.Connection[Any]:
        session._line.close()
        connection = begun(session)
        sessions.append(connection.info.backend_pid)
        return connection

    monkeypatch.setattr(PostgresSession, "_begun", begin_anew)
    job.drive(3)
    assert job.ids() == ALL
    assert len(sessions) > 3 * 3


@pytest.mark.full
def test_drivers_race(job: LocalJob) -> None:
    """Each takes over from the others all the time; in the end every micro-batch is there once."""
    errors: list[BaseException] = []

    def race() -> None:
        done = 0
        while done < 3 and not errors:
            session = job.open()
            try:
                while done < 3:
                    job.write(session, done)
                    done += 1
            except (FencedError, SinkError):
                continue
            except BaseException as error:  # noqa: BLE001 - told below
                errors.append(error)
            finally:
                session.let_go()

    drivers = [threading.Thread(target=race) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert errors == []
    assert job.ids() == ALL
    assert job.commits() == [(1, 0, ROWS), (2, 1, ROWS), (3, 2, ROWS)]


class ServerDies(LocalWork):
    """The server is killed after the first batch of a task, in the middle of its COPY, once."""

    server: PostgresServer
    is_dead = False

    def carry_out(self, plan: WritePlan) -> Results:
        if self.is_dead:
            return super().carry_out(plan)
        self.is_dead = True
        whole, self.batches = self.batches, []
        (stage,) = plan.stages

        def dying() -> Iterator[pa.RecordBatch]:
            yield whole[0]
            self.server.kill()
            self.server.start_again()
            yield from whole[1:]

        try:
            task = Task(number=0, attempt_id=0)
            return [row for one in stage.task(task, dying()) for row in one.to_pylist()]
        finally:
            self.batches = whole


@pytest.mark.full
def test_the_server_is_restarted_between_two_micro_batches(job: LocalJob, postgres: PostgresServer) -> None:
    session = job.open()
    job.write(session, 0)
    postgres.kill()
    postgres.start_again()
    assert job.write(session, 1) == ROWS
    assert job.ids() == ALL[: 2 * ROWS]


@pytest.mark.full
def test_the_server_dies_in_the_middle_of_a_copy(job: LocalJob, postgres: PostgresServer) -> None:
    work = ServerDies(batches=orders(0, ROWS), columns=COLUMNS)
    work.server = postgres
    assert job.write(job.open(), 0, work=work) == ROWS
    assert work.is_dead
    assert job.ids() == ALL[:ROWS]
    assert job.commits() == [(1, 0, ROWS)]


@dataclass(kw_only=True)
class InTheMiddle(LocalWork):
    """Something happens after the first batch of a task, in the middle of its COPY, once."""

    act: Callable[[], None]
    is_done: bool = False

    def carry_out(self, plan: WritePlan) -> Results:
        if self.is_done:
            return super().carry_out(plan)
        self.is_done = True
        (stage,) = plan.stages

        def interrupted() -> Iterator[pa.RecordBatch]:
            yield self.batches[0]
            self.act()
            yield from self.batches[1:]

        return [row for one in stage.task(Task(number=0, attempt_id=0), interrupted()) for row in one.to_pylist()]


def test_an_attempt_is_undone_just_before_the_server_dies(job: LocalJob, postgres: PostgresServer) -> None:
    """PostgreSQL does not start after a crash that follows the end of a transaction with a new unlogged table."""

    def end_session_and_server() -> None:
        with psycopg.connect(job.dsn, autocommit=True) as other:
            other.execute("SELECT pg_logical_emit_message(true, 'semel', 'what was written so far is on the disk')")
            other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE 'COPY%'"
                " AND pid <> pg_backend_pid()"
            )
        postgres.kill()
        postgres.start_again()

    work = InTheMiddle(batches=orders(0, ROWS), columns=COLUMNS, act=end_session_and_server)
    assert job.write(job.open(), 0, work=work) == ROWS
    assert work.is_done
    assert job.ids() == ALL[:ROWS]


def test_a_driver_takes_over_while_a_task_of_the_old_one_copies(job: LocalJob) -> None:
    """It does not wait for that task, and the next driver drops what the task has left."""
    left: list[str] = []

    def take_over() -> None:
        successor = job.open()
        successor.own()
        left.extend(job.staging())
        successor.let_go()

    work = InTheMiddle(batches=orders(0, ROWS), columns=COLUMNS, act=take_over)
    with pytest.raises(FencedError):
        job.write(job.open(), 0, work=work)
    assert len(left) == 1
    assert job.write(job.open(), 0) == ROWS
    assert job.ids() == ALL[:ROWS]
    assert job.staging() == []


@pytest.mark.parametrize("is_moving", [False, True], ids=["before the copy", "before the move"])
def test_somebody_drops_the_staging_tables(job: LocalJob, monkeypatch: pytest.MonkeyPatch, is_moving: bool) -> None:
    """They look like rubbish to whoever tidies the schema up: the rows are staged again."""
    dropped: list[str] = []

    def drop_all() -> None:
        if not dropped:
            dropped.extend(job.staging())
            for name in dropped:
                job.execute(f"DROP TABLE {name}")

    if is_moving:
        move = Move.carry_out

        def move_dropped(self: Move, *given: Any) -> None:
            drop_all()
            move(self, *given)

        monkeypatch.setattr(Move, "carry_out", move_dropped)
    else:
        made = StageRows._made

        @contextmanager
        def made_and_dropped(self: StageRows, connection: Any, place: str) -> Iterator[None]:
            with made(self, connection, place):
                drop_all()
                yield

        monkeypatch.setattr(StageRows, "_made", made_and_dropped)
    assert job.write(job.open(), 0) == ROWS
    assert dropped
    assert job.ids() == ALL[:ROWS]


@pytest.mark.full
def test_the_server_dies_in_the_middle_of_a_commit(
    job: LocalJob, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT is sent and the server is killed: whether it happened is found in the ledger after the recovery."""
    commit, look, send = PostgresSession.commit, PostgresSession._look, psycopg.Connection.commit
    armed: list[bool] = []
    kills: list[int] = []
    looked: list[int] = []

    def die(connection: psycopg.Connection[Any]) -> None:
        if not armed:
            send(connection)
            return
        armed.clear()
        connection.pgconn.send_query(b"COMMIT")
        connection.pgconn.flush()
        postgres.kill()
        kills.append(1)
        postgres.start_again()
        # An answer that the server still sent is lost with the connection.
        connection.pgconn.finish()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def arm(session: PostgresSession) -> None:
        if len(kills) == len(job.commits()):
            armed.append(True)
        commit(session)

    def note(session: PostgresSession, error: Exception) -> None:
        looked.append(1)
        look(session, error)

    monkeypatch.setattr(psycopg.Connection, "commit", die)
    monkeypatch.setattr(PostgresSession, "commit", arm)
    monkeypatch.setattr(PostgresSession, "_look", note)
    for number in range(3):
        session = job.open()
        job.write(session, number)
        session.let_go()
        assert job.ids() == list(range((number + 1) * ROWS))
    assert len(kills) == len(looked) == 3
    assert job.commits() == [(1, 0, ROWS), (2, 1, ROWS), (3, 2, ROWS)]
