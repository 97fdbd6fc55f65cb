"""Staging tables: their names, what is left of them, and the move of their rows into the table.

Rows are appended, or put in place of those with their key; then the last row of a key counts.

Keeps: E22 staged rows are counted before they are committed: UNLOGGED tables are empty after a crash of the server.
Why:   nobody waits for the lock of a staging table that may be dropped: a task may have begun its COPY just now, and
       the pipeline's row in the ledger is locked meanwhile. What is in use is left to the next one that looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.errors import SinkError
from semel.sinks.postgres.connection import STAGING, RowsRefusedError, library, quoted
from semel.sinks.postgres.table import Table

if TYPE_CHECKING:
    import psycopg

# How long a table with rows of another driver's stays, from the moment in which somebody saw it first.
LEFT_S_MAX = 86_400
# How many of them one commit looks after.
LEFT_TABLES_MAX = 100
_SEEN = "semel saw it first at "  # the comment of such a table, with seconds since 1970 by the server's clock
TEXTS = "S"  # PostgreSQL's category of types
INPUT_CHECKS_SINCE = 160_000  # the server's version that brought pg_input_is_valid


def staging_prefix(pipeline: str, staging: str = "") -> str:
    """What the names of a pipeline's staging begin with, of one job or of all; they end with the attempt.

    Short: PostgreSQL cuts names after 63 bytes.
    """
    job = f"{sha256(staging.encode()).hexdigest()[:12]}_" if staging else ""
    return f"{STAGING}{sha256(pipeline.encode()).hexdigest()[:16]}_{job}"


# --- what is left of them

# Without those that are known to be in use: each refusal of a lock is a line in the server's log.
_FOUND = """FROM pg_class
    WHERE relnamespace = %s::regnamespace AND starts_with(relname, %s) AND relkind = 'r'
      AND NOT EXISTS (SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
                      WHERE relation = pg_class.oid AND datname = current_database() AND pid <> pg_backend_pid())"""
# Those that were seen less than a day ago are passed over.
_ABANDONED = f"""
SELECT name, seen_s IS NOT NULL, now_s FROM (
    SELECT relname AS name, substring(obj_description(oid, 'pg_class') FROM '^{_SEEN}([0-9]+)$')::bigint AS seen_s,
           extract(epoch FROM now())::bigint AS now_s
    {_FOUND} AND NOT starts_with(relname, %s)) found
WHERE seen_s IS NULL OR seen_s < now_s - %s ORDER BY name LIMIT %s
"""  # noqa: S608


class Abandoned(NamedTuple):
    """A staging table of another driver's, which may be dead."""

    name: str
    is_old: bool
    """Whether somebody saw it more than a day ago."""
    now_s: int
    """The server's time."""


def drop_staging(connection: psycopg.Connection[Any], schema: str, prefix: str, *, but: str | None = None) -> None:
    """Drop staging tables by what their names begin with, `but` not those that begin so.

    For the owner of a pipeline, and for what is a driver's own. A table that a task of an older driver still fills is
    left to the next one.
    """
    look = f"SELECT relname {_FOUND} AND starts_with(relname, %s) IS NOT TRUE"
    for (name,) in connection.execute(look.encode(), (quoted(schema), prefix, but)).fetchall():
        with _left_if_in_use(connection):
            place = _lock(connection, schema, name)
            connection.execute(f"DROP TABLE {place}".encode())


def find_abandoned(connection: psycopg.Connection[Any], schema: str, prefix: str, *, but: str) -> list[Abandoned]:
    """Find tables with which a driver that owns nothing has to do something, `but` not its own."""
    found = connection.execute(_ABANDONED.encode(), (quoted(schema), prefix, but, LEFT_S_MAX, LEFT_TABLES_MAX))
    return [Abandoned(*row) for row in found.fetchall()]


def drop_abandoned(connection: psycopg.Connection[Any], schema: str, abandoned: Abandoned) -> None:
    """Drop a table that no other driver can need any more; for at least once, where several drivers may be at work.

    - A table without rows that nobody uses is dropped. An attempt tells its driver of a table only after it has
      committed at least one row. While it copies it has a lock; before that it makes the table again (`rows`).
    - A table with rows may wait for its driver, and nothing says whether that one lives: it has no transaction open
      meanwhile, a pooler hides its session, and Spark's own writers have no process at all between the tasks and the
      commit. So it is dropped a day after a driver saw it first. A driver that needs still longer misses it when it
      moves the rows, and its next start writes the micro-batch again: rows are neither lost nor doubled by that.
    """
    with _left_if_in_use(connection):
        place = _lock(connection, schema, abandoned.name)
        if abandoned.is_old or connection.execute(f"SELECT FROM {place} LIMIT 1".encode()).fetchone() is None:
            connection.execute(f"DROP TABLE {place}".encode())
        else:
            connection.execute(f"COMMENT ON TABLE {place} IS '{_SEEN}{abandoned.now_s}'".encode())


@contextmanager
def _left_if_in_use(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Undo this block alone, without an error, when its table is in use, is gone, or is another user's."""
    errors = library().errors
    passed_over = (errors.LockNotAvailable, errors.UndefinedTable, errors.InsufficientPrivilege)
    with suppress(*passed_over), connection.transaction():
        yield


def _lock(connection: psycopg.Connection[Any], schema: str, name: str) -> str:
    """Keep everybody else off the table, at once or not at all; gives its name in a statement."""
    place = f"{quoted(schema)}.{quoted(name)}"
    connection.execute(f"LOCK TABLE {place} IN ACCESS EXCLUSIVE MODE NOWAIT".encode())
    return place


# --- the move


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What is moved where."""

    table: Table
    staged: Mapping[str, int]
    """The staging tables, and how many rows each has."""
    types: Mapping[str, str]
    """The columns in staging, and their types there."""
    key: Sequence[str] = ()
    order_by: str | None = None
    delete_by: str | None = None
    an_order: str = 'order_by="…"'
    """How the user of the sink says which of two rows of a key counts."""

    def carry_out(self, connection: psycopg.Connection[Any], what: str) -> None:
        """Move the staged rows, see that all were there, and drop the staging tables, in the caller's transaction."""
        if not self.staged:
            return
        # Before the move: PostgreSQL refuses a key that comes twice in one upsert, but not one that is also deleted.
        if self.twice is not None and connection.execute(self.twice.encode()).fetchone() is not None:
            raise self._key_comes_twice(what)
        moved = 0
        for statement in self.statements:
            try:
                moved += connection.execute(statement.encode()).rowcount
            except library().errors.CardinalityViolation:
                raise self._key_comes_twice(what) from None
        # A staged row is inserted or deletes at most one. So as many as were staged mean that all were there, and
        # only where it is less (an older row of a key, a trigger) they are read once more to be counted.
        if moved != sum(self.staged.values()):
            self._check_counts(connection, what)
        for name in self.staged:
            connection.execute(f"DROP TABLE {self._place(name)}".encode())

    def _check_counts(self, connection: psycopg.Connection[Any], what: str) -> None:
        for name, rows in self.staged.items():
            found = connection.execute(f"SELECT count(*) FROM {self._place(name)}".encode()).fetchone()  # noqa: S608
            if found is None or found[0] != rows:
                raise SinkError(
                    f"{what}: a task staged {rows} rows in {name}, and they are not all there",
                    because="the server was restarted after a crash, which empties unlogged tables",
                )

    def _key_comes_twice(self, what: str) -> RowsRefusedError:
        """The error for two rows of one key where nothing says which of them is the later."""
        return RowsRefusedError(
            f"{what}: a key comes twice in one micro-batch",
            because="an upsert of both would depend on which of them PostgreSQL reads last",
            you_want=f"{self.an_order}, a column whose greatest value is the one that counts",
        )

    def _place(self, name: str) -> str:
        return f"{quoted(self.table.schema)}.{quoted(name)}"

    @property
    def statements(self) -> list[str]:
        """In the order in which they are run."""
        return [self._insert(self._staged)] if not self.key else self._upsert()

    @property
    def twice(self) -> str | None:
        """Finds keys that come twice, where nothing says which of them counts and PostgreSQL would not notice."""
        if not self.key or self.order_by is not None or self.delete_by is None:
            return None
        return f"SELECT 1 FROM ({self._staged}) every GROUP BY {self._keys} HAVING count(*) > 1 LIMIT 1"  # noqa: S608

    @property
    def _staged(self) -> str:
        return " UNION ALL ".join(f"TABLE {self._place(one)}" for one in self.staged)

    @property
    def _keys(self) -> str:
        return ", ".join(quoted(name) for name in self.key)

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.types if self.table.column(name) is not None]

    def _insert(self, rows: str, where: str = "", conflict: str = "") -> str:
        """Texts are read as what the table has there, json or an enum.

        Everything else is left to PostgreSQL's own rules of assignment, which refuse a text that is too long where a
        cast would cut it.
        """
        names = ", ".join(quoted(name) for name in self._columns)
        values = ", ".join(self._value(name) for name in self._columns)
        return f"INSERT INTO {self.table.sql} ({names}) SELECT {values} FROM ({rows}) staged {where} {conflict}"  # noqa: S608

    def _upsert(self) -> list[str]:
        rows = self._staged
        if self.order_by is not None:
            # One row for each key: the one with the greatest value of the order column.
            order = f"{self._keys}, {quoted(self.order_by)} DESC NULLS LAST"
            rows = f"SELECT DISTINCT ON ({self._keys}) * FROM ({rows}) every ORDER BY {order}"  # noqa: S608
        others = [name for name in self._columns if name not in self.key]
        changes = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in others)
        action = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        conflict = f"ON CONFLICT ({self._keys}) {action}"
        if self.delete_by is None:
            return [self._insert(rows, conflict=conflict)]
        is_deleted = quoted(self.delete_by)
        same = " AND ".join(f"kept.{quoted(name)} = {self._value(name, 'staged.')}" for name in self.key)
        return [
            f"DELETE FROM {self.table.sql} kept USING ({rows}) staged WHERE staged.{is_deleted} AND {same}",  # noqa: S608
            self._insert(rows, f"WHERE {is_deleted} IS NOT TRUE", conflict),
        ]

    def _value(self, name: str, of: str = "") -> str:
        column = self.table.column(name)
        assert column is not None, "only columns of the table are moved"
        is_read = self.types[name] == "text" and column.category != TEXTS
        return f"CAST({of}{quoted(name)} AS {column.type})" if is_read else f"{of}{quoted(name)}"

    @property
    def limited_texts(self) -> list[str]:
        """Texts that become something that not every text can be: a short one, a uuid, json, an enum."""
        found = {name: self.table.column(name) for name, kind in self.types.items() if kind == "text"}
        return [name for name, column in found.items() if column is not None and column.type != "text"]

    def unreadable(self, name: str) -> str:
        """Finds a staged text that the column of the table cannot be."""
        column = self.table.column(name)
        assert column is not None, "only columns of the table are looked at"
        kind = column.type.replace("'", "''")
        every = f"SELECT 1 FROM ({self._staged}) every"  # noqa: S608
        return f"{every} WHERE NOT pg_input_is_valid({quoted(name)}, '{kind}') LIMIT 1"


def unreadable_column(connection: psycopg.Connection[Any], move: Move) -> str | None:
    """The column with a text that the table cannot take, if there is one; servers before version 16 cannot tell."""
    if connection.info.server_version < INPUT_CHECKS_SINCE:
        return None
    texts = move.limited_texts
    return next((one for one in texts if connection.execute(move.unreadable(one).encode()).fetchone()), None)
