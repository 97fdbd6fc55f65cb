"""The output table: its columns as the database has them, and which columns of the rows they can take.

Keeps: a mismatch is told before anything runs, with the column, what was found and what is wanted. Nothing is rounded,
       cut or guessed: a number goes only where all its values fit.
Why:   a task sends each column as the type that Spark has; the move from staging to the table casts. So json, uuid,
       enum and network addresses are sent as text and read by PostgreSQL itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.sinks.base import Column
from semel.sinks.postgres.connection import quoted

if TYPE_CHECKING:
    import psycopg

_WHOLE = ("smallint", "integer", "bigint", "numeric")
# Spark's type -> the type in staging, and the types of a table's column that take every value of it.
_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "tinyint": ("smallint", _WHOLE),
    "smallint": ("smallint", _WHOLE),
    "int": ("integer", _WHOLE[1:]),
    "bigint": ("bigint", _WHOLE[2:]),
    "float": ("real", ("real", "double precision")),
    "double": ("double precision", ("double precision",)),
    "boolean": ("boolean", ("boolean",)),
    "binary": ("bytea", ("bytea",)),
    "date": ("date", ("date",)),
    "timestamp": ("timestamp with time zone", ("timestamp with time zone",)),
    "timestamp_ntz": ("timestamp without time zone", ("timestamp without time zone",)),
}
_TEXTS = ("json", "jsonb", "uuid", "inet", "cidr", "macaddr", "macaddr8", "xml", "citext")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_JSON = ("json", "jsonb")
_NESTED = ("array<", "map<", "struct<", "variant")

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typcategory, a.attnotnull,
       a.atthasdef OR a.attidentity <> '', a.attidentity = 'a' OR a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of the table."""

    name: str
    type: str
    category: str
    """PostgreSQL's own: S for texts, E for enums."""
    is_needed: bool
    """Whether rows must bring it: it may not be null, and nothing fills it."""
    is_made: bool
    """Whether the database makes its value, and takes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The output table as it is now."""

    schema: str
    name: str
    oid: int
    columns: tuple[TableColumn, ...]
    unique: tuple[frozenset[str], ...]

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def column(self, name: str) -> TableColumn | None:
        """The column of this name."""
        return next((one for one in self.columns if one.name == name), None)


def make_table(connection: psycopg.Connection[Any], name: str, columns: Sequence[Column], key: Sequence[str]) -> None:
    """Make a table that these rows fit, if there is none of the name; the key is its primary key."""
    place = ".".join(quoted(part) for part in name.split("."))
    for column in columns:
        if _made_type(column) is None:
            raise ConfigError(
                f"column {column.name!r} is {column.type}, for which PostgreSQL has no type",
                you_want=f".drop({column.name!r}), or a cast to another type",
            )
    parts = [f"{quoted(column.name)} {_made_type(column)}" for column in columns]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(quoted(part) for part in key)})")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {place} ({', '.join(parts)})".encode())


def _made_type(column: Column) -> str | None:
    """The type of a column that is made for Spark's; None where there is none."""
    decimal = _DECIMAL.fullmatch(column.type)
    if decimal is not None:
        return f"numeric({decimal[1]},{decimal[2]})"
    if column.type.startswith("string"):
        return "text"
    if column.type.startswith(_NESTED):
        return "jsonb"
    return _TYPES[column.type][0] if column.type in _TYPES else None


def read_table(connection: psycopg.Connection[Any], name: str, to_make_it: str) -> Table:
    """Look the table up; `schema.table`, or a name on the search path. `to_make_it` is what its user may ask for."""
    parts = ".".join(quoted(part) for part in name.split("."))
    found = connection.execute(
        "SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = to_regclass(%s) AND c.relkind IN ('r', 'p')",
        (parts,),
    ).fetchone()
    if found is None:
        raise ConfigError(
            f"there is no table {name!r} in this database, or this user may not see its schema",
            you_want="the name that it has now, if it was renamed; or create the table first, with the columns of the "
            f"rows; or {to_make_it}",
        )
    oid, schema, table = found
    columns = tuple(
        TableColumn(name=row[0], type=row[1], category=row[2], is_needed=row[3] and not row[4], is_made=row[5])
        for row in connection.execute(_COLUMNS, (oid,))
    )
    unique = tuple(frozenset(row[0]) for row in connection.execute(_UNIQUE, (oid,)))
    return Table(schema=schema, name=table, oid=oid, columns=columns, unique=unique)


def as_json(column: Column, table: Table) -> Column:
    """A nested column as the text that a column of json or jsonb reads; any other as it is."""
    found = table.column(column.name)
    if found is None or found.type not in _JSON or not column.type.startswith(_NESTED):
        return column
    name = "`" + column.name.replace("`", "``") + "`"
    made_by = f"to_json({name}, map('ignoreNullFields', 'false'))"
    return replace(column, type="string", made_by=made_by)


def staging_type(column: Column) -> str:
    """The type that a column of the rows has on its way."""
    if column.type in _TYPES:
        return _TYPES[column.type][0]
    return "numeric" if column.type.startswith("decimal") else "text"


def check_rows(table: Table, columns: Sequence[Column], *, beside: Sequence[str | None] = ()) -> None:
    """Refuse rows that the table cannot take; `beside` are columns of the rows that need not be in the table."""
    for column in columns:
        found = table.column(column.name)
        if found is None:
            if column.name not in beside:
                raise _missing(table, column)
        elif found.is_made:
            raise ConfigError(
                f"column {column.name!r} of table {table.name!r} is made by the database",
                because="it is GENERATED ALWAYS, so it takes no values",
                you_want=f"rows without it: .drop({column.name!r})",
            )
        elif not _fits(column, found):
            raise _mismatch(table, column, found)
    brought = {column.name for column in columns}
    for needed in table.columns:
        if needed.is_needed and needed.name not in brought:
            raise ConfigError(
                f"the rows have no column {needed.name!r}, which table {table.name!r} needs",
                because="it is NOT NULL and has no default",
                you_wrote=f"columns {sorted(brought)}",
            )


def check_key(table: Table, key: Sequence[str]) -> None:
    """An upsert needs a unique index on exactly its key, or PostgreSQL cannot tell whether a row is there."""
    if frozenset(key) not in table.unique:
        names = ", ".join(quoted(name) for name in key)
        raise ConfigError(
            f"table {table.name!r} has no unique index on the key ({', '.join(key)})",
            because="without one the same key could be there twice, and an upsert could not find it",
            next_command=f"ALTER TABLE {table.sql} ADD UNIQUE ({names})",
        )


def _fits(column: Column, found: TableColumn) -> bool:
    if column.type == "void":
        return True
    if column.type.startswith("string"):
        return found.category in "SE" or found.type in _TEXTS
    decimal = _DECIMAL.fullmatch(column.type)
    if decimal is not None:
        return _holds_decimal(found.type, int(decimal[1]), int(decimal[2]))
    if column.type not in _TYPES:
        return False
    wanted = _TYPES[column.type][1]
    return found.type in wanted


def _holds_decimal(found: str, digits: int, scale: int) -> bool:
    """Whether a numeric has room for so many digits on both sides of the point."""
    limited = _NUMERIC.fullmatch(found)
    if limited is None:
        return found == "numeric"
    return int(limited[2]) >= scale and int(limited[1]) - int(limited[2]) >= digits - scale


def _missing(table: Table, column: Column) -> ConfigError:
    names = [one.name for one in table.columns]
    close = difflib.get_close_matches(column.name, names, n=1) or [
        name for name in names if name.lower() == column.name.lower()
    ]
    return ConfigError(
        f"table {table.name!r} has no column {column.name!r}",
        you_wrote=f"rows with the column {column.name} {column.type}",
        you_want=f"the column {close[0]!r}?" if close else f"rows without it, or one of {names}",
    )


def _mismatch(table: Table, column: Column, found: TableColumn) -> ConfigError:
    if column.type.startswith(_NESTED):
        remedy = "a table column of type jsonb"
    else:
        wanted = _TYPES[column.type][1] if column.type in _TYPES else (staging_type(column),)
        remedy = f"a table column of type {' or '.join(wanted)}, or .withColumn({column.name!r}, …cast(…))"
    return ConfigError(
        f"column {column.name!r} is {column.type} in the rows and {found.type} in table {table.name!r}",
        because="not every value of the one has a place in the other",
        you_want=remedy,
    )
