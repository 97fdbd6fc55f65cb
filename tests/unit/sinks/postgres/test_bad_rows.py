"""Rows that a table refuses: the message names table, column and what to do, and the next start goes on.

Beside that, a table that is altered or dropped while a query runs.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, SemelError
from semel.protocol.arrow_types import ArrowArray
from semel.sinks.base import CommitStep
from semel.sinks.postgres.connection import RowsRefusedError
from tests.unit.sinks.local_work import ROWS, local_work
from tests.unit.sinks.postgres.local_job import LocalJob

ALL = list(range(3 * ROWS))


def texts(*values: bytes) -> ArrowArray:
    """Texts as Spark may have them: nobody has looked at the bytes."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize(
    ("ddl", "bad", "column", "advice"),
    [
        pytest.param("note text", texts(b"good", b"\xff"), "note", "make_valid_utf8", id="invalid UTF-8"),
        pytest.param("note text", texts(b"good", b"a\0b"), "note", "zero bytes", id="a zero byte"),
        pytest.param("note varchar(4)", texts(b"good", b"longer"), "note", "rows that fit", id="too long"),
        pytest.param("note uuid", texts(b"no uuid", b"either"), "note", "rows that fit", id="no uuid"),
        pytest.param("note text NOT NULL", pa.array(["good", None]), "note", "rows that fit", id="null"),
        pytest.param("note text CHECK (note > 'z')", texts(b"a", b"b"), "note_check", "rows that fit", id="a check"),
    ],
)
def test_the_message_names_table_and_column(
    postgres: PostgresServer, ddl: str, bad: ArrowArray, column: str, advice: str
) -> None:
    job = LocalJob(postgres.conninfo, ddl=f"id bigint, {ddl}")
    session = job.open()
    with pytest.raises(RowsRefusedError) as caught:
        job.write(session, 0, work=local_work(pa.table({"id": [1, 2], "note": bad}).to_batches()))
    session.let_go()
    first = caught.value.summary
    assert f"table {job.table}" in first
    assert column in first.partition("refuses the rows")[2]
    assert advice in caught.value.you_want
    assert job.ids() == [], "nothing is visible"
    if "uuid" in ddl:
        job.execute(f"ALTER TABLE {job.table} ALTER COLUMN note TYPE text")
    good = pa.table({"id": [1], "note": ["z1"]}).to_batches()
    assert job.write(job.open(), 0, work=local_work(good)) == 1
    assert job.staging() == []


@pytest.fixture
def job(postgres: PostgresServer) -> LocalJob:
    return LocalJob(postgres.conninfo)


@pytest.mark.parametrize(
    ("act", "back"),
    [
        ("ALTER TABLE {table} DROP COLUMN note", "ALTER TABLE {table} ADD COLUMN note text"),
        ("ALTER TABLE {table} RENAME TO {table}_away", "ALTER TABLE {table}_away RENAME TO {table}"),
        ("ALTER TABLE {table} ADD COLUMN more int NOT NULL", "ALTER TABLE {table} DROP COLUMN more"),
        ("ALTER TABLE {table} ALTER COLUMN note TYPE int USING 1", "ALTER TABLE {table} ALTER COLUMN note TYPE text"),
    ],
    ids=["a column goes", "another name", "a column comes", "another type"],
)
def test_the_table_is_altered_while_a_micro_batch_runs(job: LocalJob, act: str, back: str) -> None:
    """It was looked at before the tasks wrote: the move is refused, and goes on when the operator has undone it."""
    acts = [act]

    def alter(step: CommitStep) -> None:
        if step is CommitStep.OPENED and acts:
            job.execute(acts.pop().format(table=job.table))

    with pytest.raises(SemelError, match=f"table {job.table}"):
        job.drive(1, alter)
    job.execute(back.format(table=job.table))
    assert job.ids() == []
    job.drive(3)
    assert job.ids() == ALL
    assert job.staging() == []


@pytest.mark.parametrize("act", ["ADD COLUMN more int NOT NULL DEFAULT 0", "ALTER COLUMN note TYPE varchar(20)"])
def test_a_change_that_takes_the_same_rows_is_no_matter(job: LocalJob, act: str) -> None:
    job.drive(1)
    acts = [act]

    def alter(step: CommitStep) -> None:
        if step is CommitStep.OPENED and acts:
            job.execute(f"ALTER TABLE {job.table} {acts.pop()}")

    job.drive(3, alter)
    assert not acts
    assert job.ids() == ALL


def test_the_table_is_dropped_while_a_query_runs(job: LocalJob) -> None:
    """Its rows are gone, so a table that is made again is not taken for it."""
    job.drive(1)

    def drop(step: CommitStep) -> None:
        if step is CommitStep.OPENED:
            job.execute(f"DROP TABLE {job.table}")

    with pytest.raises(ConfigError, match=f"table {job.table}"):
        job.write(job.open(), 1, drop)
    with pytest.raises(ConfigError, match="there is no table"):
        job.open()
    job.execute(f"CREATE TABLE {job.table} (id bigint PRIMARY KEY, note text)")
    with pytest.raises(SemelError):
        job.write(job.open(), 1)
    assert job.ids() == []
