"""The ledger of a pipeline in a real PostgreSQL, as an audit reads it: at one moment, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, TypeAlias

import psycopg
import pytest

from semel.audit.ledgers import TableLedger
from semel.audit.postgres_moment import postgres_moment
from semel.engine.postgres import PostgresServer
from semel.errors import ConfigError, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.sinks.base import MicroBatch
from semel.sinks.ledger import Ledger
from semel.sinks.postgres.ledger import Names, make_tables, note_commit, read_kept, write_kept
from semel.wire.topology import TopicPartition
from tests.support.postgres import started

Moment: TypeAlias = AbstractContextManager[TableLedger]
PLACE = TopicPartition("orders", 0)
_schemas = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = started()
    yield running
    running.stop()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A schema of its own, with a table and empty ledgers."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        schema = f"Shop {next(_schemas)}"
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        connection.execute(f'SET search_path = "{schema}"'.encode())
        make_tables(connection, Names(schema=schema))
        connection.execute("CREATE TABLE bills (id bigint)")
        yield connection


def schema_of(database: psycopg.Connection[Any]) -> str:
    (found,) = database.execute("SELECT current_schema()").fetchone() or ("",)
    return str(found)


def commit(database: psycopg.Connection[Any], upto: int, table: str = "bills") -> None:
    """What the sink does for a micro-batch, without rows."""
    schema = schema_of(database)
    names = Names(schema=schema)
    (oid,) = database.execute("SELECT to_regclass(%s)::oid", (table,)).fetchone() or (0,)
    new = "INSERT INTO {ledger} (pipeline, owner_epoch, owner) VALUES (%s, 1, gen_random_uuid()) ON CONFLICT DO NOTHING"
    with database.transaction():
        database.execute(names.sql(new).encode(), ("shop",))
        kept = read_kept(database, names, "shop")
        batch = MicroBatch(
            pipeline="shop",
            guarantee=Guarantee.EXACTLY_ONCE,
            query_id="q",
            id=upto,
            offsets={PLACE: upto},
            offsets_before={PLACE: 0},
        )
        target = f'"{schema}"."{table}"'
        ledger = kept.ledger if kept is not None else Ledger()
        entry, held = write_kept(database, names, batch, ledger, target=target, target_oid=oid)
        note_commit(database, names, entry, pipeline="shop", target_oid=oid, held=held, rows=0, epoch=1)


def moment(database: psycopg.Connection[Any], table: str = "bills", pipeline: str = "shop") -> Moment:
    given = {**database.info.get_parameters(), "password": database.info.password}
    return postgres_moment(given, f'"{schema_of(database)}".{table}', pipeline)


def test_what_is_committed_later_is_of_another_moment(
    server: PostgresServer, database: psycopg.Connection[Any]
) -> None:
    commit(database, 10)
    commit(database, 25)
    with moment(database) as first:
        commit(database, 40)
        assert [(one.offset_first, one.offset_next) for one in first.commits("orders")] == [(0, 10), (10, 25)]
        assert first.held[PLACE].offset_next == 25
        assert all(one.committed_s for one in first.commits("orders"))
        with psycopg.connect(database.info.dsn, password=database.info.password) as reader:
            reader.execute(first.moment.encode())
            found = reader.execute(f'SELECT max(number) FROM "{schema_of(database)}".semel_commits'.encode()).fetchone()
            assert found == (2,), "who begins with the moment sees the database as it was"
    with moment(database) as second:
        assert second.held[PLACE].offset_next == 40


@pytest.mark.parametrize(
    ("before", "table", "pipeline", "said"),
    [
        ("SELECT 1", "nowhere", "shop", "there is no table"),
        ("SELECT 1", "bills", "other", "no ledger of 'other'"),
        ("CREATE TABLE refunds (id bigint)", "refunds", "shop", "and not to"),
        ("DROP TABLE bills; CREATE TABLE bills (id bigint)", "bills", "shop", "dropped and made again"),
        ("DROP TABLE semel_ledger", "bills", "shop", "no ledger of 'shop'"),
    ],
)
def test_what_cannot_be_judged_by_a_ledger_is_refused(
    database: psycopg.Connection[Any], before: str, table: str, pipeline: str, said: str
) -> None:
    commit(database, 10)
    database.execute(before.encode())
    with pytest.raises(ConfigError, match=said), moment(database, table, pipeline):
        pass


def test_a_ledger_older_than_its_history_is_refused(database: psycopg.Connection[Any]) -> None:
    commit(database, 10)
    commit(database, 20)
    database.execute("UPDATE semel_ledger SET number = 1")
    with pytest.raises(OutcomeUnknownError, match="its history at 2"), moment(database):
        pass


def test_what_this_libpq_does_not_know_is_refused() -> None:
    given = {"host": "h", "password": "hunter2", "sslnews": "x"}
    unknown = pytest.raises(ConfigError, match="does not know one of these: host, password, sslnews")
    with unknown as error, postgres_moment(given, "t", "p"):
        pass
    assert "hunter2" not in str(error.value)


def test_a_wrong_password_is_not_repeated(server: PostgresServer) -> None:
    given = psycopg.conninfo.conninfo_to_dict(server.conninfo, password="hunter2")
    wrong = {name: str(value) for name, value in given.items()}
    with pytest.raises(ConfigError, match="does not let this user in") as error, postgres_moment(wrong, "x", "shop"):
        pass
    assert "hunter2" not in str(error.value)
