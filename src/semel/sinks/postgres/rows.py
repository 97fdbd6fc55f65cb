"""What tasks do for the PostgreSQL sink: rows as Arrow columns into a staging table of the attempt's own.

Each attempt makes an UNLOGGED table and fills it with one binary COPY: an attempt that dies leaves it empty, one that
ends twice leaves two tables, and only the one whose result Spark counts is moved. What is left is dropped with a later
micro-batch, see `staging`.

Keeps: E2 a result says how many rows the server took; memory is bounded, since rows are encoded a megabyte at a time.
Why:   the table is made in a transaction of its own. A server that crashes just after a transaction with a new UNLOGGED
       table was rolled back does not start: the file of the table is still there, the sign that it may be emptied is
       not ("could not create file … File exists", PostgreSQL's bug 17731; the second start goes through). That
       transaction is on the disk before rows are sent: after a crash the table is then there and empty, which the
       driver notices and writes again (E22); one that is not there would end the query. Between the two transactions
       nobody can tell the table from one that a dead attempt left. So it may be dropped then, and is made again: no row
       was sent yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semel.errors import SinkError
from semel.sinks.base import Batches, Task, arrow_schema
from semel.sinks.postgres.connection import Address, library, quoted, send

if TYPE_CHECKING:
    import psycopg

RESULT = "task int, staging string, records long, row_bytes_max long"
_SCHEMA = arrow_schema(RESULT)
TABLES_MAX = 5  # how often one attempt makes its table


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRows:
    """The work of a task; picklable."""

    address: Address
    table: str
    """Where the rows are to go in the end, for the reader of an error."""
    schema: str
    prefix: str
    """What the names of this job's staging tables begin with."""
    columns: tuple[tuple[str, str], ...]
    """Names and types in staging, in the order of the rows."""

    def __call__(self, task: Task, batches: Batches) -> Batches:
        """Copy all rows; a task without rows makes no table."""
        # Here, since it brings the kernels, and a driver that only commits has no use for them.
        from semel.sinks.postgres.encode import HEADER, TRAILER, CopyRows  # noqa: PLC0415

        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        name = f"{self.prefix}{task.attempt_id}"
        try:
            with self.address.connect() as connection:
                place = f"{quoted(self.schema)}.{quoted(name)}"
                with self._made(connection, place):
                    cursor = connection.cursor()
                    with self._copying(cursor, place) as copy:
                        copy.write(HEADER)
                        records = row_bytes_max = 0
                        for batch in chain([first], batches):
                            rows = CopyRows.of(batch)
                            for chunk in rows.chunks():
                                send(copy, chunk)
                            records += batch.num_rows
                            row_bytes_max = max(row_bytes_max, rows.row_bytes_max)
                        copy.write(TRAILER)
                    # The server counts what it took: a COPY that ended early must not be counted (E2).
                    if cursor.rowcount != records:
                        raise SinkError(f"{records} rows were sent to PostgreSQL, and it took {cursor.rowcount}")
        except library().Error as error:
            raise self.address.refusal(error, f"staging rows for the table {self.table} in {name}") from None
        told = {"task": task.number, "staging": name, "records": records, "row_bytes_max": row_bytes_max}
        yield pa.RecordBatch.from_pylist([told], schema=_SCHEMA)

    @contextmanager
    def _made(self, connection: psycopg.Connection[Any], place: str) -> Iterator[None]:
        """Make the staging table, for the work of one attempt; drop it when the work fails."""
        self._make(connection, place)
        try:
            yield
        except BaseException:
            with suppress(library().Error):  # a connection that is lost leaves it to the next owner
                connection.rollback()
                connection.execute(f"DROP TABLE {place}".encode())
                connection.commit()
            raise

    @contextmanager
    def _copying(self, cursor: psycopg.Cursor[Any], place: str) -> Iterator[psycopg.Copy]:
        """Begin the COPY, after which the table is locked; makes the table again if it was dropped before that."""
        with ExitStack() as ended:
            for tables_left in reversed(range(TABLES_MAX)):
                try:
                    copy = ended.enter_context(cursor.copy(f"COPY {place} FROM STDIN (FORMAT binary)"))
                    break
                except library().errors.UndefinedTable:
                    if not tables_left:
                        raise
                    cursor.connection.rollback()
                    self._make(cursor.connection, place)
            yield copy

    def _make(self, connection: psycopg.Connection[Any], place: str) -> None:
        columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in self.columns)
        connection.execute(f"CREATE UNLOGGED TABLE {place} ({columns})".encode())
        connection.commit()
