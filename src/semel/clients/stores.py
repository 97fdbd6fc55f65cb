"""`Store`: results and offsets in one database transaction. `SqliteStore` and `PostgresStore` differ in dialect only.

    store = semel.SqliteStore("orders.db")
    consumer = semel.Consumer(…, guarantee=Guarantee.EXACTLY_ONCE, store=store)
    for batch in consumer.batches():
        with store.transaction(batch) as t:
            for record in batch:
                t.execute("INSERT INTO orders VALUES (?)", [record.value])

The offsets row of a partition moves from where the batch begins to where it ends, or the transaction fails: a member
whose partitions were given to another finds the row moved on (FencedError) and changes nothing.

Keeps: K7 a batch's results and its offsets are in the database together or not at all; K8 of two members that work on
       the same records one commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from semel.clients.records import Batch, TopicPartition
from semel.clients.steps import ClientStep, OnStep, ignore_step
from semel.errors import ConfigError, FencedError, OutcomeUnknownError, SemelError, SinkError

ILLEGAL_GENERATION = 22
ROW = "group_id = ? AND topic = ? AND partition_id = ?"


class Connection(Protocol):
    """What sqlite3 and psycopg have in common."""

    def execute(self, sql: Any, parameters: Any = ..., /) -> Any:
        """Run one statement."""

    def commit(self) -> None:
        """Commit."""

    def rollback(self) -> None:
        """Roll back."""

    def close(self) -> None:
        """Close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Where databases differ."""

    name: str
    mark: str  # stands for a parameter
    begin: str | None  # what opens a transaction, when that is not done by itself
    lock: str  # ends a SELECT that waits for the transaction that is changing the row
    binary: str  # the type of bytes
    one_maker: tuple[str, ...]  # lets nobody else make tables until the commit

    def sql(self, text: str) -> str:
        """A statement written with `?`."""
        return text.replace("?", self.mark)


class Store:
    """A database that keeps offsets with results."""

    dialect: Dialect

    def __init__(self, *, offsets_table: str = "semel_offsets", on_step: OnStep = ignore_step) -> None:
        """The table is made when it is not there."""
        self._table = quoted(offsets_table)
        self._on_step = on_step
        self._connection: Connection | None = None

    def connect(self) -> Connection:
        """Open a new connection, or raise SinkError."""
        raise NotImplementedError

    def is_lost(self, error: Exception) -> bool:
        """Whether the error leaves open what became of a statement."""
        raise NotImplementedError

    @property
    def connection(self) -> Connection:
        """The connection of transactions, opened when it is first needed; one thread at a time."""
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def make(self, *statements: str) -> None:
        """Make tables that may be there already, on a connection of its own."""
        try:
            with closing(self.connect()) as connection:
                for statement in (*self.dialect.one_maker, *statements):
                    connection.execute(statement)
                connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the tables cannot be made") from None

    def offsets(
        self, group: str, places: Iterable[TopicPartition], begin: Callable[[TopicPartition], int]
    ) -> dict[TopicPartition, int]:
        """The offsets of a group; `begin` says where a partition begins that has none yet.

        On a connection of its own: a rebalance may come while a transaction is open.
        """
        try:
            self.make(
                f"CREATE TABLE IF NOT EXISTS {self._table} (group_id text NOT NULL, topic text NOT NULL,"
                " partition_id integer NOT NULL, offset_next bigint NOT NULL,"
                " PRIMARY KEY (group_id, topic, partition_id))"
            )
            with closing(self.connect()) as connection:
                found = {place: self._offset(connection, group, place, begin) for place in places}
                connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the offsets cannot be read") from None
        return found

    def _offset(
        self, connection: Connection, group: str, place: TopicPartition, begin: Callable[[TopicPartition], int]
    ) -> int:
        """Read one row, waiting for a transaction that is changing it; make it when it is not there."""
        row = (group, place.topic, place.partition)
        while (found := self._read(connection, row)) is None:
            insert = f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - quoted
            connection.execute(self.dialect.sql(insert), (*row, begin(place)))
        return found

    def _read(self, connection: Connection, row: tuple[str, str, int]) -> int | None:
        select = f"SELECT offset_next FROM {self._table} WHERE {ROW}{self.dialect.lock}"  # noqa: S608 - quoted
        found = connection.execute(self.dialect.sql(select), row).fetchone()
        return None if found is None else int(found[0])

    def run(self, text: str, parameters: Sequence[object] = ()) -> Any:
        """Run a statement of ours, written with `?`, in the open transaction."""
        return self.connection.execute(self.dialect.sql(text), parameters)

    def move(self, batch: Batch) -> None:
        """Move the offsets from where the batch begins to where it ends; FencedError when they are elsewhere."""
        update = f"UPDATE {self._table} SET offset_next = ? WHERE {ROW} AND offset_next = ?"  # noqa: S608 - quoted
        for place, offset_next in batch.offsets.items():
            row = (batch.group, place.topic, place.partition)
            if self.run(update, (offset_next, *row, batch.starts[place])).rowcount != 1:
                raise FencedError(
                    f"the offset of {place} is not where the batch begins",
                    code=ILLEGAL_GENERATION,
                    because="another member of the group has processed these records",
                    next_command="go on: the batch was rolled back, and its partition is another member's",
                )

    def transaction(self, batch: Batch | None = None) -> StoreTransaction:
        """A database transaction that also moves the batch's offsets; without a batch it is only a transaction."""
        if batch is not None and (batch.owner is None or batch.owner.store is not self):
            raise ConfigError(
                "the batch was read by a consumer that keeps its offsets elsewhere",
                you_want="Consumer(…, guarantee=EXACTLY_ONCE, store=store)",
                because="where reading begins must come from the same store that remembers where it ended",
            )
        return StoreTransaction(self, batch, self._on_step)

    def refusal(self, error: Exception, what: str) -> SemelError:
        """The database's error without its parameters, which may be private."""
        if isinstance(error, SemelError):
            return error
        return SinkError(f"{what}: {type(error).__name__}", because=self.told(error))

    def told(self, error: Exception) -> str:
        """What the database says."""
        return str(error)

    def disconnect(self) -> None:
        """Let the connection go; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken already
                connection.close()

    def close(self) -> None:
        """Close."""
        self.disconnect()

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class StoreTransaction:
    """One transaction: what is executed here is kept with the offsets of the batch."""

    def __init__(self, store: Store, batch: Batch | None, on_step: OnStep) -> None:
        """Nothing is begun yet."""
        self.store = store
        self.batch = batch
        self._on_step = on_step

    @property
    def connection(self) -> Any:
        """The database connection, for whatever it can do; do not commit it."""
        return self.store.connection

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Run one statement, with the database's own marks for parameters."""
        return self.store.connection.execute(sql, parameters)

    def __enter__(self) -> Self:
        """Begin."""
        if self.store.dialect.begin is not None:
            self.store.connection.execute(self.store.dialect.begin)
        self._on_step(ClientStep.BEGUN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Move the offsets and commit, or roll back."""
        if error is not None:
            self._undo()
            return
        try:
            if self.batch is not None:
                self.store.move(self.batch)
                self._on_step(ClientStep.OFFSETS_SENT)
        except Exception as other:  # noqa: BLE001 - each database has its own classes
            self._undo()
            raise self.store.refusal(other, "the offsets were not moved") from None
        self._commit()

    def _commit(self) -> None:
        self._on_step(ClientStep.COMMITTING)
        try:
            self.store.connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            if not self.store.is_lost(error):
                self._undo()
                raise self.store.refusal(error, "the transaction was not committed") from None
            self._settle(error)
        self._on_step(ClientStep.COMMITTED)
        if self.batch is not None and self.batch.owner is not None:
            self.batch.owner.settled()

    def _settle(self, error: Exception) -> None:
        """The connection broke while it committed: ask the offsets, which tell."""
        self.store.disconnect()
        standing = {} if self.batch is None else self._ask(self.batch)
        if self.batch is not None and standing == self.batch.offsets:
            return
        if self.batch is not None and standing == {place: self.batch.starts[place] for place in standing}:
            self._undo()
            raise self.store.refusal(error, "the transaction was not committed") from None
        raise OutcomeUnknownError(
            "the database connection broke in the commit",
            because=self.store.told(error),
            next_command="look for the results before you do the work again",
        )

    def _ask(self, batch: Batch) -> dict[TopicPartition, int]:
        try:
            return self.store.offsets(batch.group, batch.offsets, batch.starts.__getitem__)
        except SemelError as error:
            raise OutcomeUnknownError(
                "the database connection broke in the commit, and cannot be opened again",
                because=str(error),
                next_command="start the consumer again: it goes on from the offsets in the store",
            ) from None

    def _undo(self) -> None:
        if self.batch is not None and self.batch.owner is not None:
            self.batch.owner.rewind()
        try:
            self.store.connection.rollback()
        except Exception:  # noqa: BLE001 - a broken connection has rolled back
            self.store.disconnect()
        self._on_step(ClientStep.ABORTED)


def quoted(name: str) -> str:
    """A table's name, as an SQL identifier; `schema.table` is two."""
    parts = name.split(".")
    if not all(parts) or any("\0" in part for part in parts):
        raise ConfigError(f"{name!r} is no name of a table")
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
