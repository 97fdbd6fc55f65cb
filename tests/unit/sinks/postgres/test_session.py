"""Micro-batches into a real PostgreSQL: drivers killed at every step, attempts twice, zombies, a server that dies."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, FencedError, OutcomeUnknownError, SinkError
from semel.guarantee import Guarantee
from semel.sinks.base import Column, CommitStep
from semel.sinks.commit import Commit
from semel.sinks.postgres.connection import RowsRefusedError
from semel.sinks.postgres.sink import PostgresSink
from semel.sinks.postgres.table import read_table
from tests.unit.sinks.local_work import COLUMNS, ROWS, SOURCE, KillAt, Killed, local_work, orders
from tests.unit.sinks.postgres.local_job import LocalJob

ALL = list(range(3 * ROWS))


@pytest.fixture
def job(postgres: PostgresServer) -> LocalJob:
    return LocalJob(postgres.conninfo)


@pytest.mark.parametrize("step", list(CommitStep))
def test_a_driver_is_killed_at_a_step(job: LocalJob, step: CommitStep) -> None:
    """M23, E5: whatever had happened by then, the next driver goes on exactly."""
    with pytest.raises(Killed):
        job.drive(3, KillAt(step, nth=2))
    done = job.done + (step is CommitStep.COMMITTED)
    assert job.ids() == ALL[: done * ROWS]
    job.drive(3)
    assert job.ids() == ALL
    assert job.commits() == [(1, 0, ROWS), (2, 1, ROWS), (3, 2, ROWS)]
    assert job.staging() == []


def test_without_the_ledger_the_same_kill_doubles_rows(postgres: PostgresServer) -> None:
    """The other half: rows moved and the ledger written in two transactions."""
    job = LocalJob(postgres.conninfo, guarantee=Guarantee.AT_LEAST_ONCE, ddl="id bigint, note text")
    with pytest.raises(Killed):
        job.drive(3, KillAt(CommitStep.ROWS_WRITTEN, nth=2))
    job.drive(3)
    assert job.ids() == sorted([*ALL, *ALL[ROWS : 2 * ROWS]])


def test_at_most_once_loses_and_never_repeats(postgres: PostgresServer) -> None:
    """M28."""
    job = LocalJob(postgres.conninfo, guarantee=Guarantee.AT_MOST_ONCE, ddl="id bigint, note text")
    with pytest.raises(Killed):
        job.drive(3, KillAt(CommitStep.COMMITTED, nth=2))
    job.drive(3)
    assert job.ids() == [*ALL[:ROWS], *ALL[2 * ROWS :]]


def test_every_attempt_writes_and_one_of_each_task_counts(job: LocalJob) -> None:
    job.attempts = 2
    job.drive(3)
    assert job.ids() == ALL
    assert len(job.staging()) == 3  # of the last micro-batch; the next owner, or micro-batch, removes them
    job.open().own()
    assert job.staging() == []


def test_staging_of_other_pipelines_is_left_alone(job: LocalJob, postgres: PostgresServer) -> None:
    other = LocalJob(postgres.conninfo, attempts=2)
    other.drive(1)
    left = other.staging()
    job.drive(1)
    assert other.staging() == left
    other.open().own()


@pytest.mark.parametrize("step", [CommitStep.OPENED, CommitStep.ROWS_WRITTEN, CommitStep.OFFSETS_WRITTEN])
def test_an_older_driver_wakes_up(job: LocalJob, step: CommitStep) -> None:
    """E18: a successor has taken over meanwhile, and where nothing is locked it has also committed."""
    older = job.open()

    def sleep(at: CommitStep) -> None:
        if at is step:
            newer = job.open()
            if step is CommitStep.OPENED:
                newer.own()
                job.write(newer, 0)
                return
            # The older one has locked the pipeline's row: whoever takes over waits for it, and here gives up.
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("semel.sinks.postgres.session.LOCK_WAIT_MS_MAX", 50)
                with pytest.raises(SinkError, match="55P03"):
                    newer.own()

    if step is CommitStep.OPENED:
        with pytest.raises(FencedError):
            job.write(older, 0, sleep)
        with pytest.raises(FencedError):
            older.own()
    else:
        assert job.write(older, 0, sleep) == ROWS
    assert job.ids() == ALL[:ROWS]
    assert job.commits() == [(1, 0, ROWS)]


@pytest.mark.parametrize("step", list(CommitStep))
def test_a_session_goes_on_after_an_error_of_somebody_elses(postgres: PostgresServer, step: CommitStep) -> None:
    """What was open when it struck is not committed with the next thing that is."""
    job = LocalJob(postgres.conninfo, ddl="id bigint, note text")
    session = job.open()

    def fail(done: CommitStep) -> None:
        if done is step:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job.write(session, 0, fail)
    job.write(session, 0)
    assert job.ids() == ALL[:ROWS]
    assert job.commits() == [(1, 0, ROWS)]


def test_an_older_driver_is_refused_before_its_successor_has_written(job: LocalJob) -> None:
    older, newer = job.open(), job.open()

    def take_over(step: CommitStep) -> None:
        if step is CommitStep.OPENED:
            newer.own()

    with pytest.raises(FencedError):
        job.write(older, 0, take_over)
    assert job.ids() == []


def test_the_ledger_moves_between_reading_and_writing(postgres: PostgresServer) -> None:
    """E11: a driver of the same name that owns nothing, at least once, writes the same micro-batch meanwhile."""
    job = LocalJob(postgres.conninfo, ddl="id bigint, note text")
    others = [job.open()]

    def meddle(step: CommitStep) -> None:
        if step is CommitStep.OPENED and others:
            job.guarantee = Guarantee.AT_LEAST_ONCE
            job.write(others.pop(), 0)

    session = job.open()
    work, micro_batch = local_work(orders(0, ROWS)), job.micro_batch(0)
    assert Commit(session=session, micro_batch=micro_batch, work=work, on_step=meddle).execute() == 0
    assert job.ids() == ALL[:ROWS]


@pytest.mark.full
def test_a_driver_that_stands_still_is_cut_off(job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the ledger locked; its successor waits until the server has ended that transaction."""
    older, newer = job.open(), job.open()

    def stand_still(step: CommitStep) -> None:
        if step is CommitStep.OPENED:
            monkeypatch.setattr("semel.sinks.postgres.session.IDLE_MS_MAX", 1_000)
        elif step is CommitStep.ROWS_WRITTEN:
            monkeypatch.undo()
            newer.own()

    with pytest.raises(FencedError):
        job.write(older, 0, stand_still)
    assert job.ids() == []
    assert job.write(newer, 0) == ROWS
    assert job.ids() == ALL[:ROWS]


def test_a_crash_of_the_server_empties_staging_and_is_noticed(job: LocalJob, postgres: PostgresServer) -> None:
    """E22: unlogged tables are empty after a crash; the micro-batch is run again."""
    crashes = [True]

    def crash() -> None:
        if crashes:
            crashes.pop()
            postgres.kill()
            postgres.start_again()
            session._line.close()  # so that the move does not end with the lost connection alone

    session = job.open()
    work = local_work(orders(0, ROWS), before_results=crash)
    assert job.write(session, 0, work=work) == ROWS
    assert job.ids() == ALL[:ROWS]
    assert job.commits() == [(1, 0, ROWS)]


@pytest.mark.parametrize("ordered", [False, True], ids=["append", "upsert"])
def test_one_staging_table_of_three_is_empty(postgres: PostgresServer, ordered: bool) -> None:
    """E22: what the others have is not moved without it, also where fewer rows than staged are right."""
    job = LocalJob(postgres.conninfo)
    job.options = {"mode": "upsert", "key": ["id"], "order_by": "note"} if ordered else {}
    losses = [True]

    def lose() -> None:
        if losses:
            losses.pop()
            job.execute(f"TRUNCATE {job.staging()[1]}")

    assert job.write(job.open(), 0, work=local_work(orders(0, ROWS), before_results=lose)) == ROWS
    assert not losses
    assert job.ids() == ALL[:ROWS]


def test_a_trigger_may_leave_rows_out(job: LocalJob) -> None:
    """Fewer rows are inserted than were staged, and all were there."""
    job.execute(
        f"CREATE FUNCTION {job.table}_even() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF NEW.id % 2 = 0 THEN RETURN NEW; END IF; RETURN NULL; END'"
    )
    job.execute(f"CREATE TRIGGER even BEFORE INSERT ON {job.table} FOR EACH ROW EXECUTE FUNCTION {job.table}_even()")
    job.drive(1)
    assert job.ids() == ALL[:ROWS:2]


@pytest.mark.parametrize("is_done", [True, False], ids=["committed", "not committed"])
def test_the_answer_to_a_commit_is_lost(job: LocalJob, monkeypatch: pytest.MonkeyPatch, is_done: bool) -> None:
    """E3: the ledger is looked at; nothing is guessed."""
    session = job.open()
    commit = psycopg.Connection.commit
    lost: list[int] = []

    def lose(connection: psycopg.Connection[object]) -> None:
        if connection is session._line.connection and session._number and not lost:
            lost.append(1)
            if is_done:
                commit(connection)
            else:
                connection.rollback()
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        commit(connection)

    monkeypatch.setattr(psycopg.Connection, "commit", lose)
    assert job.write(session, 0) == ROWS
    assert lost
    assert job.ids() == ALL[:ROWS]
    assert job.commits() == [(1, 0, ROWS)]


@pytest.mark.full
def test_nobody_can_say_whether_it_was_committed(
    job: LocalJob, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    session = job.open()
    commit = psycopg.Connection.commit

    def lose(connection: psycopg.Connection[object]) -> None:
        commit(connection)
        if connection is session._line.connection and session._number:
            postgres.kill()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(psycopg.Connection, "commit", lose)
    try:
        with pytest.raises(OutcomeUnknownError, match="nobody knows"):
            job.write(session, 0)
    finally:
        postgres.start_again()
    monkeypatch.undo()
    job.drive(2)  # the ledger knew: the first one is skipped
    assert job.ids() == ALL[: 2 * ROWS]


def test_a_table_that_has_rows_and_no_ledger_is_refused(job: LocalJob) -> None:
    """E9, with a way out that is followed."""
    job.execute(f"INSERT INTO {job.table} VALUES (-1, 'mine')")
    with pytest.raises(OutcomeUnknownError, match="ledger_missing") as caught:
        job.drive(1)
    assert "PostgresSink" in str(caught.value)
    assert "topic" not in str(caught.value)
    job.options["ledger_missing"] = "run"
    job.drive(1)
    assert job.ids() == [-1, *ALL[:ROWS]]


def test_a_table_that_was_made_again_is_refused(job: LocalJob) -> None:
    job.drive(1)
    job.execute(f"DROP TABLE {job.table}")
    job.execute(f"CREATE TABLE {job.table} ({job.ddl})")
    with pytest.raises(ConfigError, match="was deleted and created again"):
        job.drive(2)
    assert job.ids() == []


def test_rows_and_ledger_are_restored_from_a_backup(job: LocalJob) -> None:
    """Kafka and the checkpoint went on meanwhile: refused, and filled again from where the ledger stands."""
    job.drive(1)
    backup = job.execute("SELECT number, micro_batch, held::text FROM semel_ledger WHERE pipeline = %s", job.pipeline)
    job.drive(2)
    restore = "UPDATE semel_ledger SET number = %s, micro_batch = %s, held = %s WHERE pipeline = %s"
    job.execute(restore, *backup[0], job.pipeline)
    job.execute("DELETE FROM semel_commits WHERE pipeline = %s AND number > 1", job.pipeline)
    job.execute(f"DELETE FROM {job.table} WHERE id >= %s", ROWS)
    with pytest.raises(ConfigError, match="lose records") as caught:
        job.drive(3)
    assert f'\'{{"orders": {{"0": {ROWS}}}}}\'' in str(caught.value)
    job.query_id, job.done = "begun again with these startingOffsets", 1
    job.drive(3)
    assert job.ids() == ALL


def test_old_commits_are_forgotten_if_asked_for(job: LocalJob) -> None:
    job.drive(1)
    age = "UPDATE semel_commits SET committed_at = now() - interval '3 days' WHERE pipeline = %s"
    job.execute(age, job.pipeline)
    job.drive(2)
    assert len(job.commits()) == 2
    job.options["commits_kept_days"] = 2
    job.drive(3)
    assert [row[1] for row in job.commits()] == [1, 2]
    assert job.write(job.open(), 0) == 0, "the ledger itself forgets nothing"


def test_a_table_of_another_version_is_refused(postgres: PostgresServer) -> None:
    job = LocalJob(postgres.conninfo)
    job.execute("CREATE SCHEMA foreign_one")
    job.execute(f"ALTER TABLE {job.table} SET SCHEMA foreign_one")
    job.table = f"foreign_one.{job.table}"
    job.execute("CREATE TABLE foreign_one.semel_ledger (pipeline text)")
    with pytest.raises(ConfigError, match="is not one that this semel knows"):
        job.drive(1)
    job.execute("DROP TABLE foreign_one.semel_ledger")
    job.drive(1)
    assert job.ids() == ALL[:ROWS]


@pytest.mark.parametrize("is_told", [False, True], ids=["not told", "told"])
def test_a_new_query_begins_at_the_beginning(job: LocalJob, is_told: bool) -> None:
    """All of it is in the table, if it is the same topic. Where nobody tells, to pass over it might lose records."""
    job.topic_ids = {SOURCE.topic: "its id"} if is_told else {}
    job.drive(2)
    job.query_id, job.done = "another", 0
    if is_told:
        job.drive(3)
        assert job.ids() == ALL
        return
    with pytest.raises(ConfigError, match="nobody can tell whether it is still the same topic") as caught:
        job.drive(1)
    assert f'"0": {2 * ROWS}' in str(caught.value)
    job.done = 2  # a new checkpoint with these startingOffsets
    job.drive(3)
    assert job.ids() == ALL


def test_a_source_topic_is_made_again(job: LocalJob) -> None:
    """Its offsets begin again at the start, and none of its records is in the table."""
    job.topic_ids = {SOURCE.topic: "first life"}
    job.drive(1)
    job.execute(f"UPDATE {job.table} SET id = -1 - id")
    job.topic_ids, job.query_id, job.done = {SOURCE.topic: "second life"}, "another", 0
    job.drive(1)
    assert job.ids() == [*range(-ROWS, 0), *range(ROWS)]


def test_the_ledger_is_emptied_while_the_query_runs(job: LocalJob) -> None:
    session = job.open()
    job.write(session, 0)
    job.execute("DELETE FROM semel_ledger WHERE pipeline = %s", job.pipeline)
    with pytest.raises(FencedError):
        job.write(session, 1)
    with pytest.raises(OutcomeUnknownError, match="the ledger is at commit 0, its history at 1") as caught:
        job.drive(1)
    assert job.ids() == ALL[:ROWS]
    job.execute(caught.value.next_command)
    job.drive(2)
    assert job.ids() == ALL[: 2 * ROWS]


def test_the_ledger_alone_is_restored_from_a_backup(job: LocalJob) -> None:
    """To go on from an older ledger would repeat rows: refused, with a command that brings it up to its history."""
    job.drive(1)
    backup = job.execute("SELECT number, micro_batch, held::text FROM semel_ledger WHERE pipeline = %s", job.pipeline)
    job.drive(2)
    restore = "UPDATE semel_ledger SET number = %s, micro_batch = %s, held = %s WHERE pipeline = %s"
    job.execute(restore, *backup[0], job.pipeline)
    with pytest.raises(OutcomeUnknownError, match="the ledger is at commit 1, its history at 2") as caught:
        job.drive(3)
    assert job.ids() == ALL[: 2 * ROWS]
    job.execute(caught.value.next_command)
    job.drive(3)
    assert job.ids() == ALL


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("id bigint PRIMARY KEY, note varchar(2)", "value too long"),
        ("id bigint PRIMARY KEY CHECK (id < 5), note text", "check"),
    ],
)
def test_rows_that_the_table_refuses(postgres: PostgresServer, ddl: str, told: str) -> None:
    """Nothing of the micro-batch is visible, the message says where, and the next start goes on."""
    job = LocalJob(postgres.conninfo, ddl=ddl)
    session = job.open()
    with pytest.raises(RowsRefusedError, match=told) as caught:
        job.write(session, 0, work=local_work(orders(0, 20)))
    assert job.table in str(caught.value) or "22001" in str(caught.value)
    assert job.ids() == []
    assert job.write(session, 0, work=local_work(orders(0, 0))) == 0


def test_a_key_that_is_there_already_is_refused_in_append(job: LocalJob) -> None:
    job.drive(1)
    job.execute(f"INSERT INTO {job.table} VALUES (%s, 'theirs')", ROWS + 1)
    with pytest.raises(RowsRefusedError, match=f"{job.table}_pkey"):
        job.drive(2)
    assert len(job.ids()) == ROWS + 1


def test_two_drivers_of_one_name_take_turns_only_by_taking_over(job: LocalJob) -> None:
    first, second = job.open(), job.open()
    assert first.own() == 1
    assert second.own() == 2
    with pytest.raises(FencedError):
        first.own()
    assert second.own() == 2


# --- what rows turn into


def one_batch(**columns: Any) -> list[pa.RecordBatch]:
    return pa.table(columns).to_batches()


UPSERT = {"mode": "upsert", "key": ["id"]}
NOTES = (Column(name="id", type="bigint"), Column(name="note", type="string"), Column(name="at", type="bigint"))


def test_an_upsert_takes_the_last_row_of_a_key(job: LocalJob) -> None:
    """Inside a micro-batch by the order column, over tasks; from one micro-batch to the next whatever it says."""
    job.options = UPSERT | {"order_by": "at"}
    session = job.open()
    first = one_batch(id=[1, 2, 1], note=["old", "two", "new"], at=[5, 1, 6])
    second = one_batch(id=[1], note=["older"], at=[1])
    assert job.write(session, 0, work=local_work(first + second, NOTES)) == 4
    assert job.execute(f"SELECT * FROM {job.table} ORDER BY id") == [(1, "new"), (2, "two")]
    assert job.write(session, 1, work=local_work(one_batch(id=[1, 3], note=[None, "three"], at=[0, 0]), NOTES)) == 2
    assert job.execute(f"SELECT * FROM {job.table} ORDER BY id") == [(1, None), (2, "two"), (3, "three")]


def test_a_key_that_comes_twice_needs_an_order(job: LocalJob) -> None:
    job.options = dict(UPSERT)
    session = job.open()
    with pytest.raises(RowsRefusedError, match="a key comes twice") as caught:
        job.write(session, 0, work=local_work(one_batch(id=[1, 1], note=["a", "b"])))
    assert "order_by" in str(caught.value)
    assert job.ids() == []
    assert job.write(session, 0, work=local_work(one_batch(id=[1, 2], note=["a", "b"]))) == 2


CHANGES = (*NOTES, Column(name="gone", type="boolean"))


def test_an_upsert_deletes_what_is_marked(job: LocalJob) -> None:
    """The last row of a key decides: a row that comes back after its deletion is there."""
    job.options = UPSERT | {"order_by": "at", "delete_by": "gone"}
    session = job.open()
    rows = one_batch(id=[1, 2, 3], note=["a", "b", "c"], at=[1, 1, 1], gone=[False, None, True])
    job.write(session, 0, work=local_work(rows, CHANGES))
    assert job.ids() == [1, 2]
    rows = one_batch(id=[1, 2, 2, 2], note=[None, "b2", None, "b3"], at=[9, 2, 3, 4], gone=[True, False, True, False])
    job.write(session, 1, work=local_work(rows, CHANGES))
    assert job.execute(f"SELECT * FROM {job.table}") == [(2, "b3")]


def test_a_deletion_and_a_row_of_one_key_need_an_order(job: LocalJob) -> None:
    job.options = UPSERT | {"delete_by": "gone"}
    columns = tuple(column for column in CHANGES if column.name != "at")
    session = job.open()
    work = local_work(one_batch(id=[1, 1], note=["a", None], gone=[False, True]), columns)
    with pytest.raises(RowsRefusedError, match="a key comes twice"):
        job.write(session, 0, work=work)
    assert job.ids() == []


def test_the_table_is_made(postgres: PostgresServer) -> None:
    """And left as it is at the next start; one that was dropped meanwhile is not taken for the one that was filled."""
    job = LocalJob(postgres.conninfo)
    job.options = {"create_table": True}
    job.table = f"{job.table}_made"
    sink = PostgresSink(job.dsn, job.table, **job.options)
    for _ in range(2):
        assert sink.check_columns(COLUMNS) == COLUMNS
        job.drive(2)
    assert job.ids() == ALL[: 2 * ROWS]
    job.execute(f"DROP TABLE {job.table}")
    sink.check_columns(COLUMNS)
    with pytest.raises(ConfigError, match="created again"):
        job.drive(3)


def test_a_made_table_has_a_type_for_every_column(postgres: PostgresServer) -> None:
    kinds = {
        "tinyint": "smallint", "bigint": "bigint", "decimal(9,2)": "numeric(9,2)", "string": "text", "binary": "bytea",
        "timestamp": "timestamp with time zone", "array<int>": "jsonb", "double": "double precision",
    }  # fmt: skip
    columns = tuple(Column(name=f"a {kind}", type=kind) for kind in kinds)
    sink = PostgresSink(postgres.conninfo, "made_of_all", create_table=True, mode="upsert", key=["a bigint"])
    sink.check_columns(columns)
    with psycopg.connect(postgres.conninfo) as connection:
        table = read_table(connection, "made_of_all", "")
    assert {column.name: column.type for column in table.columns} == {f"a {kind}": made for kind, made in kinds.items()}
    assert table.unique == (frozenset({"a bigint"}),)
    with pytest.raises(ConfigError, match="for which PostgreSQL has no type"):
        PostgresSink(postgres.conninfo, "never", create_table=True).check_columns(
            [Column(name="span", type="interval day to second")]
        )


def test_a_replayed_upsert_changes_nothing(job: LocalJob) -> None:
    job.options = dict(UPSERT)
    job.drive(1)
    job.execute(f"UPDATE {job.table} SET note = 'theirs'")
    assert job.write(job.open(), 0) == 0
    assert job.execute(f"SELECT DISTINCT note FROM {job.table}") == [("theirs",)]


TEXTS = "id serial, doc jsonb, uid uuid, net inet, feeling weather, filled text DEFAULT 'x'"


def test_texts_are_read_as_what_the_table_has(postgres: PostgresServer) -> None:
    """Columns that the rows do not bring are filled by the database."""
    job = LocalJob(postgres.conninfo, ddl="id bigint")
    job.execute("CREATE TYPE weather AS ENUM ('good', 'bad')")
    job.execute(f"DROP TABLE {job.table}")
    job.execute(f"CREATE TABLE {job.table} ({TEXTS})")
    names = ("doc", "uid", "net", "feeling")
    columns = tuple(Column(name=name, type="string") for name in names)
    good = {
        "doc": ['{"a": 1}'],
        "uid": ["6f1d5e3a-0000-4000-8000-000000000001"],
        "net": ["10.0.0.0/8"],
        "feeling": ["good"],
    }
    session = job.open()
    assert job.write(session, 0, work=local_work(one_batch(**good), columns)) == 1
    found = job.execute(f"SELECT id, doc->>'a', uid::text, net::text, feeling::text, filled FROM {job.table}")
    assert found == [(1, "1", good["uid"][0], "10.0.0.0/8", "good", "x")]
    for name in names:
        with pytest.raises(RowsRefusedError, match="nonsense"):
            job.write(session, 1, work=local_work(one_batch(**good | {name: ["nonsense"]}), columns))
    assert job.write(session, 1, work=local_work(one_batch(**good), columns)) == 1


def test_a_null_where_the_table_has_none_is_refused(postgres: PostgresServer) -> None:
    job = LocalJob(postgres.conninfo, ddl="id bigint, note text NOT NULL")
    with pytest.raises(RowsRefusedError, match=f"table {job.table}, column note"):
        job.write(job.open(), 0, work=local_work(one_batch(id=[1], note=pa.array([None], pa.string()))))
    assert job.ids() == []


def test_a_zero_byte_in_a_text_is_refused(job: LocalJob) -> None:
    session = job.open()
    with pytest.raises(RowsRefusedError, match="22021"):
        job.write(session, 0, work=local_work(one_batch(id=[1], note=["a\0b"])))
    assert job.write(session, 0) == ROWS


def test_a_user_with_ordinary_rights(postgres: PostgresServer) -> None:
    """INSERT and SELECT on the table and CREATE in its schema are enough; without them the message names them."""
    job = LocalJob(postgres.conninfo)
    owner = job.dsn
    job.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
    job.execute("CREATE SCHEMA narrow")
    job.execute(f"ALTER TABLE {job.table} SET SCHEMA narrow")
    job.table = f"narrow.{job.table}"
    job.dsn = psycopg.conninfo.make_conninfo(owner, user="plain", password="plain")
    for right in ("USAGE, CREATE ON SCHEMA narrow", f"INSERT, SELECT ON {job.table}"):
        with pytest.raises(ConfigError, match="may not do that") as caught:
            job.drive(1)
        assert all(word in str(caught.value) for word in re.findall("[A-Z]{5,}", right.split(" ON ")[0]))
        LocalJob(owner).execute(f"GRANT {right} TO plain")
    job.drive(2)
    assert job.ids() == ALL[: 2 * ROWS]
