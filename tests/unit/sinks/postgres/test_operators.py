"""What operators do to a database: dumps are loaded, whole or in part, tables renamed, histories emptied."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from semel.engine.postgres import PACKAGE, PostgresServer
from semel.errors import ConfigError, OutcomeUnknownError, SinkError
from semel.sinks.postgres.sink import PostgresSink
from tests.unit.sinks.local_work import ROWS, orders, write_run
from tests.unit.sinks.postgres.local_job import LocalJob

ALL = list(range(3 * ROWS))
PROGRAM_S_MAX = 120
_schemas = count(1)


@dataclass
class SchemaJob(LocalJob):
    """A pipeline into a schema of its own, so that semel's tables there are its own too."""

    name: str = ""

    @property
    def pipeline(self) -> str:
        return self.name

    @property
    def schema(self) -> str:
        return self.table.split(".")[0]

    def dump(self, *tables: str) -> bytes:
        """What pg_dump says of the schema, or of these tables of it; loaded, it takes the place of what is there."""
        chosen = [f"--table={self.schema}.{name}" for name in tables] or [f"--schema={self.schema}"]
        return self._program("pg_dump", "--clean", "--if-exists", *chosen)

    def load(self, dump: bytes) -> None:
        self._program("psql", "--set=ON_ERROR_STOP=1", given=dump)

    def _program(self, name: str, *arguments: str, given: bytes = b"") -> bytes:
        found = find_spec(PACKAGE)
        assert found is not None
        assert found.origin is not None
        address = psycopg.conninfo.conninfo_to_dict(self.dsn)
        login = {f"PG{part.upper()}": str(address[part]) for part in ("host", "port", "user", "password")}
        ran = subprocess.run(
            [Path(found.origin).parent / "pginstall" / "bin" / name, "--dbname=postgres", *arguments],
            input=given,
            capture_output=True,
            env=os.environ | login,
            timeout=PROGRAM_S_MAX,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout


@pytest.fixture
def job(postgres: PostgresServer) -> Iterator[SchemaJob]:
    schema = f"operated_{next(_schemas)}"
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    yield SchemaJob(postgres.conninfo, table=f"{schema}.orders", name=f"to-{schema}")
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def begin_anew(job: SchemaJob, error: ConfigError, done: int) -> None:
    """A new checkpoint with the startingOffsets of the refusal."""
    assert f'\'{{"orders": {{"0": {done * ROWS}}}}}\'' in str(error)
    job.query_id, job.done = "begun again", done


def test_yesterdays_dump_is_loaded(job: SchemaJob) -> None:
    """Kafka and the checkpoint went on: refused, then filled again from where the ledger of the dump stands."""
    job.drive(1)
    yesterday = job.dump()
    job.drive(2)
    job.load(yesterday)
    assert job.ids() == ALL[:ROWS]
    with pytest.raises(ConfigError, match="lose records") as caught:
        job.drive(3)
    begin_anew(job, caught.value, 1)
    job.drive(3)
    assert job.ids() == ALL


def test_semels_tables_alone_are_loaded(job: SchemaJob) -> None:
    """The table holds more than they say: to go on from there would double rows. Right once the table is loaded too."""
    job.drive(1)
    yesterday, part = job.dump(), job.dump("semel_ledger", "semel_commits")
    job.drive(2)
    job.load(part)
    with pytest.raises(OutcomeUnknownError, match="its table is still the one from before"):
        job.drive(3)
    job.load(yesterday)
    with pytest.raises(ConfigError, match="lose records") as caught:
        job.drive(3)
    begin_anew(job, caught.value, 1)
    job.drive(3)
    assert job.ids() == ALL


def test_semels_tables_are_loaded_as_they_were(job: SchemaJob) -> None:
    """Nothing was written since the dump, as somebody has seen: the statement says so, and the pipeline goes on."""
    job.drive(2)
    job.load(job.dump("semel_ledger", "semel_commits"))
    with pytest.raises(OutcomeUnknownError, match="its table is still the one from before") as caught:
        job.drive(3)
    job.execute(caught.value.next_command)
    job.drive(3)
    assert job.ids() == ALL


@pytest.mark.parametrize("act", ["TRUNCATE", "DROP TABLE"])
def test_the_ledger_alone_goes(job: SchemaJob, act: str) -> None:
    job.drive(2)
    job.execute(f"{act} {job.schema}.semel_ledger")
    with pytest.raises(OutcomeUnknownError, match="the ledger is at commit 0, its history at 2") as caught:
        job.drive(3)
    job.execute(caught.value.next_command)
    job.drive(3)
    assert job.ids() == ALL


def test_the_table_is_renamed(job: SchemaJob) -> None:
    """Under its old name it is missing, and made again it is another one; under its new name it is the same."""
    job.drive(1)
    job.execute(f"ALTER TABLE {job.table} RENAME TO orders_of_2026")
    with pytest.raises(ConfigError, match="if it was renamed"):
        job.drive(2)
    job.execute(f"CREATE TABLE {job.table} ({job.ddl})")
    with pytest.raises(ConfigError, match="was deleted and created again"):
        job.drive(2)
    job.table = f"{job.schema}.orders_of_2026"
    job.drive(3)
    assert job.ids() == ALL


def test_runs_are_removed_from_the_history(job: SchemaJob) -> None:
    """A repeated run would be written again: refused, also when one of two is still known."""
    for name, first in (("monday", 0), ("tuesday", ROWS)):
        assert write_run(job.open(), name, orders(first, first + ROWS)) == ROWS
    job.execute(f"DELETE FROM {job.schema}.semel_commits WHERE number = 1")
    assert write_run(job.open(), "tuesday", orders(ROWS, 2 * ROWS)) == 0
    with pytest.raises(OutcomeUnknownError, match=r"has written 2 runs, and .* knows 1 of them") as caught:
        write_run(job.open(), "monday", orders(0, ROWS))
    assert 'PostgresSink(..., ledger_missing="run") for this job' in str(caught.value)
    job.options = {"ledger_missing": "run"}
    assert write_run(job.open(), "wednesday", orders(2 * ROWS, 3 * ROWS)) == ROWS
    assert job.ids() == ALL


def test_a_run_is_refused_for_another_table(job: SchemaJob) -> None:
    """A run is remembered for the whole pipeline: skipped, it would be missing in the other table."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    job.execute(f"CREATE TABLE {job.schema}.more ({job.ddl})")
    other = SchemaJob(job.dsn, table=f"{job.schema}.more", ddl="", name=job.name)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"was written to the table .*orders.*, and this sink") as caught:
            write_run(other.open(), "monday", orders(0, ROWS))
        assert "another pipeline name for this sink, or another run_id" in str(caught.value)
    assert other.ids() == []
    other.name = f"{job.name}-too"
    assert write_run(other.open(), "monday", orders(0, ROWS)) == ROWS
    assert (other.ids(), job.ids()) == (ALL[:ROWS], ALL[:ROWS])


def test_the_table_of_a_run_is_renamed(job: SchemaJob) -> None:
    """The same table under another name has the run; another table under the old name has not."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    old, job.table = job.table, f"{job.schema}.orders_of_2026"
    job.execute(f"ALTER TABLE {old} RENAME TO orders_of_2026")
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    job.execute(f"CREATE TABLE {old} ({job.ddl})")
    made_again = SchemaJob(job.dsn, table=old, ddl="", name=job.name)
    with pytest.raises(ConfigError, match="was dropped or renamed since, and this sink writes to the one that has its"):
        write_run(made_again.open(), "monday", orders(0, ROWS))
    assert (made_again.ids(), job.ids()) == ([], ALL[:ROWS])


def test_the_table_of_a_run_is_renamed_after_a_dump_was_loaded(job: SchemaJob) -> None:
    """Numbers of tables mean nothing then, and the name is another one: somebody has to say that it is the same."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    job.load(job.dump())
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    job.execute(f"ALTER TABLE {job.table} RENAME TO orders_of_2026")
    job.table = f"{job.schema}.orders_of_2026"
    with pytest.raises(ConfigError, match="if you know that the table was renamed, this statement") as caught:
        write_run(job.open(), "monday", orders(0, ROWS))
    job.execute(caught.value.next_command)
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    assert job.ids() == ALL[:ROWS]


def test_runs_of_before_semel_kept_the_numbers_of_tables(job: SchemaJob) -> None:
    """The columns are added, and the name of the table counts, as it did."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    job.execute(f"ALTER TABLE {job.schema}.semel_commits DROP COLUMN target_oid, DROP COLUMN ledger_oid")
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    assert write_run(job.open(), "tuesday", orders(ROWS, 2 * ROWS)) == ROWS
    numbers = job.execute(f"SELECT target_oid IS NULL FROM {job.schema}.semel_commits ORDER BY number")
    assert numbers == [(True,), (False,)]


@pytest.fixture
def loader(job: SchemaJob) -> Iterator[SchemaJob]:
    """The same pipeline as a user with ordinary rights, who made none of the tables."""
    role = f"loader_{job.schema}"
    job.drive(1)
    job.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'loader'")
    job.execute(f"GRANT USAGE, CREATE ON SCHEMA {job.schema} TO {role}")
    job.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {job.schema} TO {role}")
    dsn = psycopg.conninfo.make_conninfo(job.dsn, user=role, password="loader")
    yield SchemaJob(dsn, table=job.table, ddl="", name=job.name, done=1)
    job.execute(f"DROP OWNED BY {role}")
    job.execute(f"DROP ROLE {role}")


def without_numbers(job: SchemaJob) -> None:
    """As an older semel made it."""
    job.execute(f"ALTER TABLE {job.schema}.semel_commits DROP COLUMN target_oid, DROP COLUMN ledger_oid")


def test_a_loader_that_does_not_own_semels_tables(job: SchemaJob, loader: SchemaJob) -> None:
    """Ordinary rights are enough. Columns that are missing are its owner's to add, by a statement that is given."""
    loader.drive(2)
    without_numbers(job)
    with pytest.raises(ConfigError, match=r"semel_commits lacks columns .* and this user may not add them") as caught:
        loader.drive(3)
    assert "its owner, " in str(caught.value)
    assert "GRANT" not in str(caught.value)
    assert "CREATE in its schema" not in str(caught.value)
    assert loader.ids() == ALL[: 2 * ROWS]
    job.execute(caught.value.next_command)
    loader.drive(3)
    assert loader.ids() == ALL


def test_somebody_reads_semels_table_while_columns_are_missing(job: SchemaJob) -> None:
    """A dump, say. The start ends soon and says whom it waits for, and commits of others do not queue up behind it."""
    job.drive(1)
    without_numbers(job)
    with psycopg.connect(job.dsn, application_name="the nightly dump") as reader:
        reader.execute(f"SELECT count(*) FROM {job.schema}.semel_commits".encode())
        began = monotonic()
        with pytest.raises(SinkError, match="semel_commits lacks columns") as caught:
            job.drive(2)
        assert monotonic() - began < 15
        assert f"the nightly dump ({reader.info.backend_pid})" in str(caught.value)
        assert job.ids() == ALL[:ROWS]
    job.drive(3)
    assert job.ids() == ALL


def swap_for_a_copy(job: SchemaJob) -> None:
    """What `CREATE TABLE … AS` and two renames do to a table that is to be rebuilt."""
    name = job.table.partition(".")[2]
    job.execute(f"CREATE TABLE {job.schema}.fresh AS TABLE {job.table}")
    job.execute(f"ALTER TABLE {job.table} RENAME TO aside")
    job.execute(f"ALTER TABLE {job.schema}.fresh RENAME TO {name}")


def test_the_table_of_a_query_is_swapped_for_a_copy(job: SchemaJob) -> None:
    """The ledger says how far the copy goes, once somebody has said that it is to count for it."""
    job.drive(1)
    swap_for_a_copy(job)
    with pytest.raises(ConfigError, match="was deleted and created again") as caught:
        job.drive(2)
    assert 'PostgresSink(..., ledger_missing="run")' in str(caught.value)
    job.options = {"ledger_missing": "run"}
    job.drive(2)
    job.options = {}
    job.drive(3)
    assert job.ids() == ALL


@pytest.mark.parametrize("name", ["orders", 'Or\'ders "%s" 100%'], ids=["plain name", "odd name"])
def test_the_table_of_a_run_is_swapped_for_a_copy(postgres: PostgresServer, job: SchemaJob, name: str) -> None:
    """It has the rows, which only somebody can know: the advice of the refusal is followed as it stands."""
    quoted_name = '"' + name.replace('"', '""') + '"'
    sql_table = f"{job.schema}.{quoted_name}"
    pipeline = "it's"
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:

        def execute(statement: str) -> list[tuple[object, ...]]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        def write(run_id: str, first: int) -> int:
            sink = PostgresSink(postgres.conninfo, f"{job.schema}.{name}")
            return write_run(sink.open(pipeline), run_id, orders(first, first + ROWS))

        execute(f"CREATE TABLE IF NOT EXISTS {sql_table} (id bigint, note text)")
        assert write("monday", 0) == ROWS
        assert write("tuesday", ROWS) == ROWS
        execute(f"CREATE TABLE {job.schema}.fresh AS TABLE {sql_table}")
        execute(f"ALTER TABLE {sql_table} RENAME TO aside")
        execute(f"ALTER TABLE {job.schema}.fresh RENAME TO {quoted_name}")
        with pytest.raises(ConfigError, match="was dropped or renamed since, and this sink writes to") as caught:
            write("monday", 0)
        assert "another run_id" not in str(caught.value), "it would double the rows"
        assert "another pipeline" not in str(caught.value)
        assert "if you know that this table has the rows of that one, as after a copy, this statement" in str(
            caught.value
        )
        execute(caught.value.next_command)
        assert write("monday", 0) == 0
        assert write("tuesday", ROWS) == 0
        assert write("wednesday", 2 * ROWS) == ROWS
        assert [row[0] for row in execute(f"SELECT id FROM {sql_table} ORDER BY id")] == ALL


@pytest.mark.parametrize("is_copy", [True, False], ids=["a copy", "an empty table"])
def test_somebody_chooses_for_a_run_whose_table_is_another_now(job: SchemaJob, is_copy: bool) -> None:
    """The setting that the refusal names, for either case; afterwards it is not needed any more."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    swap_for_a_copy(job)
    if not is_copy:
        job.execute(f"TRUNCATE {job.table}")
    choice = "skip" if is_copy else "run"
    with pytest.raises(ConfigError) as caught:
        write_run(job.open(), "monday", orders(0, ROWS))
    assert f'PostgresSink(..., ledger_missing="{choice}") for this job' in str(caught.value)
    job.options = {"ledger_missing": choice}
    assert write_run(job.open(), "monday", orders(0, ROWS)) == (0 if is_copy else ROWS)
    assert job.ids() == ALL[:ROWS]
    if is_copy:
        return
    job.options = {}
    assert write_run(job.open(), "monday", orders(0, ROWS)) == 0
    assert job.ids() == ALL[:ROWS]


def test_a_choice_is_not_one_about_another_table(job: SchemaJob) -> None:
    """The table of the run is there under its own name: what to do with a lost ledger says nothing about it."""
    assert write_run(job.open(), "monday", orders(0, ROWS)) == ROWS
    job.execute(f"CREATE TABLE {job.schema}.more AS TABLE {job.table}")
    for choice in ("run", "skip"):
        other = SchemaJob(
            job.dsn, table=f"{job.schema}.more", ddl="", name=job.name, options={"ledger_missing": choice}
        )
        with pytest.raises(ConfigError, match=r"was written to the table .*orders.*, and this sink") as caught:
            write_run(other.open(), "monday", orders(0, ROWS))
    assert "if you know that this table has the rows of that one" in str(caught.value)
    job.execute(caught.value.next_command)
    other.options = {}
    assert write_run(other.open(), "monday", orders(0, ROWS)) == 0
    assert other.ids() == ALL[:ROWS]


def test_two_pipelines_share_a_table(job: SchemaJob) -> None:
    """The second is told that the table has rows, chooses, and neither disturbs the other."""
    job.drive(1)
    other = SchemaJob(job.dsn, table=job.table, ddl="", name=f"{job.name}-too", done=1)
    with pytest.raises(OutcomeUnknownError, match="has no ledger, but its output") as caught:
        other.drive(2)
    assert 'PostgresSink(..., ledger_missing="run")' in str(caught.value)
    other.options = {"ledger_missing": "run"}
    other.drive(2)
    job.done = 2  # what the other one wrote is not this one's to write
    with pytest.raises(ConfigError, match="lose records"):
        job.drive(3)
    other.options = {}
    other.drive(3)
    assert job.ids() == ALL
