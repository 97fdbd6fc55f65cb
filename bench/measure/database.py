"""A PostgreSQL server for the row of sinks: tables for rows, what Spark's JDBC writer needs, COPY by hand.

Nobody has settings of the server to himself. It vacuums nothing by itself, and its checkpoint is made before each
measured write: otherwise one of the writers would pay for what another one has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame

from bench.measure.row_shapes import OLD, Shape
from semel.engine.postgres import PostgresServer
from semel.sinks.postgres.connection import send
from semel.sinks.postgres.encode import HEADER, TRAILER, CopyRows

STATEMENT_S_MAX = 600
CONNECT_S_MAX = 10
CONFIG = {"autovacuum": "off", "statement_timeout": f"{STATEMENT_S_MAX}s"}
COPY_CHUNK_BYTES = 1 << 20
TYPES = {
    "bigint": "bigint",
    "boolean": "boolean",
    "date": "date",
    "double": "double precision",
    "int": "integer",
    "string": "text",
    "timestamp": "timestamptz",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One server, and what is done to it outside of the measured time."""

    server: PostgresServer

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection whose transaction is committed at the end."""
        with psycopg.connect(self.server.conninfo, connect_timeout=CONNECT_S_MAX) as connection:
            yield connection

    def execute(self, *statements: str) -> None:
        """Each statement in a transaction of its own."""
        with self.connected() as connection:
            connection.autocommit = True
            for statement in statements:
                connection.execute(statement.encode())

    def make(self, table: str, rows: DataFrame, *, with_key: bool = True) -> None:
        """An empty table for these rows; their number is its primary key, unless somebody wants none."""
        columns = [f'"{name}" {TYPES.get(kind, kind.replace("decimal", "numeric"))}' for name, kind in rows.dtypes]
        parts = ", ".join([*columns, *(["PRIMARY KEY (id)"] if with_key else [])])
        self.execute(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({parts})")

    def settle(self) -> None:
        """Write to the disk what was written before, so that the next writer does not have to."""
        self.execute("CHECKPOINT")

    def count(self, table: str, where: str = "true") -> int:
        """How many rows a table has."""
        with self.connected() as connection:
            (found,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {where}".encode()).fetchone() or (0,)
        return int(found)

    def count_old(self, table: str, shape: Shape) -> int:
        """How many rows were not replaced."""
        return self.count(table, f"{shape.text} = '{OLD}'")

    def jdbc(self, table: str, options: dict[str, str]) -> dict[str, str]:
        """Options of Spark's JDBC writer."""
        known = psycopg.conninfo.conninfo_to_dict(self.server.conninfo)
        return {
            "url": f"jdbc:postgresql://{known['host']}:{known['port']}/{known['dbname']}",
            "driver": "org.postgresql.Driver",
            "user": str(known["user"]),
            "password": str(known["password"]),
            "dbtable": table,
            **options,
        }

    def binary_rows(self, table: str) -> bytes:
        """The rows of a table in the binary format of COPY, in the order of their numbers."""
        with (
            self.connected() as connection,
            connection.cursor().copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT (FORMAT binary)") as out,
        ):
            return b"".join(bytes(chunk) for chunk in out)

    def copy_bytes(self, table: str, data: bytes) -> None:
        """One process, one connection, one COPY of what is there already."""
        with (
            self.connected() as connection,
            connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy,
        ):
            for begin in range(0, len(data), COPY_CHUNK_BYTES):
                copy.write(data[begin : begin + COPY_CHUNK_BYTES])

    def copy_encoded(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """The same from Arrow columns, with semel's encoder."""
        with (
            self.connected() as connection,
            connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.write(HEADER)
            for batch in batches:
                for chunk in CopyRows.of(batch).chunks():
                    send(copy, chunk)
            copy.write(TRAILER)

    def copy_texts(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """The same from Arrow columns as psycopg's manual has it: a Python object for each value, sent as text."""
        with self.connected() as connection, connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
