"""semel's own tables in a store: made, or brought to the version that this semel knows, in one database transaction.

The versions stand in a table of their own, `semel_schema`, in the same schema as the table they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semel.errors import ConfigError, install_command

if TYPE_CHECKING:
    from semel.clients.store_session import Connection
    from semel.clients.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of semel's: how it is made, and the steps from each version to the next."""

    name: str
    create: Sequence[str]
    steps: Sequence[Sequence[str]]  # the first leads from version 1 to 2

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.steps) + 1


def prepare(store: Store, *tables: Table) -> None:
    """Make what is not there, change what is older, refuse what is newer; all of it or nothing."""
    try:
        with closing(store.connect()) as connection:
            if all(_version(store, connection, table) == table.version for table in tables):
                return  # so that a user without the right to make tables can work with those that are there
            # The looks above may have begun a transaction, which saw the tables before anybody else was kept out.
            connection.rollback()
            for statement in store.dialect.one_maker:
                connection.execute(statement)
            for table in tables:
                _bring_up(store, connection, table)
            connection.commit()
    except Exception as error:  # noqa: BLE001 - each database has its own classes
        raise store.refusal(error, "the tables cannot be made") from None


def _bring_up(store: Store, connection: Connection, table: Table) -> None:
    registry, version = _registry(table.name), _version(store, connection, table)
    if version > table.version:
        raise ConfigError(
            f"the table {table.name} is of version {version}, and this semel knows version {table.version}",
            because="a newer semel has changed it",
            next_command=install_command(upgrade=True),
        )
    statements = table.create if version == 0 else [one for step in table.steps[version - 1 :] for one in step]
    for statement in (
        f"CREATE TABLE IF NOT EXISTS {quoted(registry)} (table_name text PRIMARY KEY, version integer NOT NULL)",
        *statements,
    ):
        connection.execute(statement)
    note = (
        f"INSERT INTO {quoted(registry)} (table_name, version) VALUES (?, ?)"  # noqa: S608 - quoted
        " ON CONFLICT (table_name) DO UPDATE SET version = excluded.version"
    )
    connection.execute(store.dialect.sql(note), (table.name, table.version))


def _version(store: Store, connection: Connection, table: Table) -> int:
    """The version of a table: 0 is none at all, 1 has no entry yet."""
    registry = _registry(table.name)
    if store.has_table(connection, registry):
        select = f"SELECT version FROM {quoted(registry)} WHERE table_name = ?"  # noqa: S608 - quoted
        found = connection.execute(store.dialect.sql(select), (table.name,)).fetchone()
        if found is not None:
            return int(found[0])
    return 1 if store.has_table(connection, table.name) else 0


def _registry(name: str) -> str:
    schema, dot, _ = name.rpartition(".")
    return f"{schema}{dot}semel_schema"


def quoted(name: str) -> str:
    """A table's name, as an SQL identifier; `schema.table` is two."""
    parts = name.split(".")
    if not all(parts) or any("\0" in part for part in parts):
        raise ConfigError(f"{name!r} is no name of a table")
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
