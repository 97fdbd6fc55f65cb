"""A moment of a PostgreSQL database: the ledger of a pipeline, and a snapshot in which Spark's tasks read the table.

The snapshot is exported by a connection that stays open as long as the audit; every task begins with it. So rows and
ledger are of one moment, however often the table is read and whatever the pipeline commits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from semel.audit.ledgers import Line, TableLedger
from semel.errors import ConfigError
from semel.sinks.ledger import held_from_list
from semel.sinks.postgres.connection import Address, library
from semel.sinks.postgres.ledger import LEDGER, Names, check_history, read_kept

_WHERE = (
    "SELECT c.oid, n.nspname, to_regclass(quote_ident(n.nspname) || %s) IS NOT NULL FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"
)
_LINES = "SELECT number, held, extract(epoch FROM committed_at)::bigint FROM {commits} WHERE pipeline = %s"


@contextmanager
def postgres_moment(conninfo: Mapping[str, str], table: str, pipeline: str) -> Iterator[TableLedger]:
    """The ledger now, and how a session of Spark's goes back to now; both end with the block."""
    driver = library()
    try:
        address = Address.of(driver.conninfo.make_conninfo("", **conninfo))
    except driver.ProgrammingError:
        # An older libpq has fewer words; its error may repeat values.
        raise ConfigError(
            f"the libpq that is installed does not know one of these: {', '.join(conninfo)}",
            you_want="a newer libpq (psycopg[binary] brings one), or no --pipeline",
        ) from None
    connection = address.connect()
    try:
        connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        try:
            found = _read(connection, table, pipeline)
        except driver.Error as error:
            raise address.refusal(error, f"reading the ledger of {pipeline!r}") from None
        yield found
    finally:
        connection.close()


def _read(connection: Any, table: str, pipeline: str) -> TableLedger:
    # A server that cuts off idle connections would end the snapshot in the middle of the audit.
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    # Spark's own connections take it over, and see the table as it is for this one.
    (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone()
    place = connection.execute(_WHERE, (f".{LEDGER}", table)).fetchone()
    if place is None:
        raise ConfigError(f"there is no table {table!r} in this database", you_want="schema.table as PostgreSQL has it")
    oid, schema, has_ledger = place
    names = Names(schema=schema)
    kept = read_kept(connection, names, pipeline) if has_ledger else None
    if kept is None or kept.ledger.last is None:
        raise ConfigError(
            f"there is no ledger of {pipeline!r} in the schema {schema!r}",
            you_want="the name of a pipeline that has committed to this table, or no --pipeline",
        )
    check_history(connection, names, pipeline, kept)
    _check_target(connection, oid, table, kept.ledger.last.targets[0], pipeline)
    _check_output(kept.ledger.home.output_ids if kept.ledger.home else {}, oid, table, pipeline)
    rows = connection.execute(names.sql(_LINES).encode(), (pipeline,)).fetchall()
    return TableLedger(
        held=kept.ledger.held,
        lines=tuple(Line(number=number, held=held_from_list(held), committed_s=at) for number, held, at in rows),
        moment=f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'",
    )


def _check_target(connection: Any, oid: int, table: str, target: str, pipeline: str) -> None:
    (target_oid,) = connection.execute("SELECT to_regclass(%s)::oid", (target,)).fetchone()
    if target_oid != oid:
        raise ConfigError(f"{pipeline!r} writes to {target}, and not to {table}", you_want=f"…#{target}")


def _check_output(output_ids: Mapping[str, str], oid: int, table: str, pipeline: str) -> None:
    # A table that was made again has another number under the same name.
    if any(one != str(oid) for one in output_ids.values()):
        raise ConfigError(
            f"{table} was dropped and made again since {pipeline!r} committed",
            because="the ledger counts rows of the older table",
            you_want="an audit without --pipeline: it says what is missing on either side",
        )
