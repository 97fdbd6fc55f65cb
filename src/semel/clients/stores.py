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

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from semel.clients.library import tell_of_forks
from semel.clients.records import Batch, Life
from semel.clients.steps import OnStep, ignore_step
from semel.clients.store_schema import Table, prepare, quoted
from semel.clients.store_session import Connection, Session
from semel.clients.store_transaction import StoreTransaction
from semel.clients.topic_lives import another_life
from semel.errors import ConfigError, FencedError, SemelError, SinkError
from semel.protocol.topic_partition import TopicPartition

ILLEGAL_GENERATION = 22
WAITS_FOR_ITSELF = "on a connection of its own this would wait for what the transaction has locked"
ROW = "group_id = ? AND topic = ? AND partition_id = ?"


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
        self._table = self.table(offsets_table)
        self._offsets_table = Table(
            name=offsets_table,
            create=[
                f"CREATE TABLE {self._table} (group_id text NOT NULL, topic text NOT NULL,"
                " partition_id integer NOT NULL, offset_next bigint NOT NULL, topic_id text NOT NULL DEFAULT '',"
                " cluster_id text NOT NULL DEFAULT '', PRIMARY KEY (group_id, topic, partition_id))"
            ],
            steps=[
                [
                    f"ALTER TABLE {self._table} ADD COLUMN topic_id text NOT NULL DEFAULT ''",
                    f"ALTER TABLE {self._table} ADD COLUMN cluster_id text NOT NULL DEFAULT ''",
                ]
            ],
        )
        self._on_step = on_step
        self._session = Session(self)
        tell_of_forks(self)

    def connect(self) -> Connection:
        """Open a new connection, or raise SinkError."""
        raise NotImplementedError

    def is_lost(self, error: Exception) -> bool:
        """Whether the error leaves open what became of a statement."""
        raise NotImplementedError

    def is_open(self, connection: Any) -> bool:
        """Whether a transaction is open on the connection, as far as this side of it knows."""
        raise NotImplementedError

    def identity(self, connection: Connection) -> object:
        """Which transaction is open on the connection; the same answer means the same transaction."""
        raise NotImplementedError

    def place(self) -> object:
        """Which database the name stands for now; another answer means that it was exchanged for another."""
        return None

    def text(self, sql: Any) -> str:
        """A statement as text."""
        if not isinstance(sql, str):
            raise ConfigError(f"{type(sql).__name__} is no statement", you_want='t.execute("INSERT …", […])')
        return sql

    def make(self, *statements: str) -> None:
        """Run statements that make tables, or change semel's, in one transaction of their own."""
        self._session.refuse_if_open(WAITS_FOR_ITSELF)
        try:
            with closing(self.connect()) as connection:
                for statement in (*self.dialect.one_maker, *statements):
                    connection.execute(statement)
                connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the tables cannot be made") from None

    def ask(self, select: str, parameters: Sequence[object]) -> list[Any]:
        """The rows of a SELECT of semel's own, written with `?`, on a connection of its own."""
        try:
            with closing(self.connect()) as connection:
                return list(connection.execute(self.dialect.sql(select), parameters).fetchall())
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the store cannot be read") from None

    def table(self, name: str) -> str:
        """A table's name as an SQL identifier."""
        return quoted(name)

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether there is such a table."""
        raise NotImplementedError

    def offsets(
        self,
        group: str,
        places: Iterable[TopicPartition],
        begin: Callable[[TopicPartition], int],
        lives: Mapping[str, Life] | None = None,
    ) -> dict[TopicPartition, int]:
        """The offsets of a group; `begin` says where a partition begins that has none yet.

        BrokerError when they are of other topics than `lives` says. Offsets that were kept before ids were are taken
        for those of the topics that are there now. On a connection of its own: a rebalance may come while a
        transaction is open.
        """
        prepare(self, self._offsets_table)  # every time: the database may have been restored from a backup
        try:
            with closing(self.connect()) as connection:
                for statement in (self.dialect.begin,) if self.dialect.begin is not None else ():
                    connection.execute(statement)
                found = {
                    place: self._offset(connection, group, place, begin, (lives or {}).get(place.topic, Life()))
                    for place in places
                }
                connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the offsets cannot be read") from None
        return found

    def _offset(
        self,
        connection: Connection,
        group: str,
        place: TopicPartition,
        begin: Callable[[TopicPartition], int],
        life: Life,
    ) -> int:
        """Read one row, waiting for a transaction that is changing it; make it when it is not there."""
        row = (group, place.topic, place.partition)
        while (found := self._read(connection, row)) is None:
            # Another member may make the same row at this moment. Whichever comes first,
            # the loop reads the one that is there.
            insert = f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - quoted
            connection.execute(self.dialect.sql(insert), (*row, begin(place), *life))
        offset, known = found
        # A topic that was deleted and made again under the same name has other records at these offsets.
        if known.differs(life):
            raise another_life(
                place.topic,
                known,
                life,
                next_command=f"store.forget({group!r}, {place.topic!r}), and it is read as if for the first time; or"
                f" store.adopt({group!r}, {place.topic!r}), if it has the same records at the same offsets",
            )
        if (together := known.filled(life)) != known:
            adopt = f"UPDATE {self._table} SET topic_id = ?, cluster_id = ? WHERE {ROW}"  # noqa: S608 - quoted
            connection.execute(self.dialect.sql(adopt), (*together, *row))
        return offset

    def _read(self, connection: Connection, row: tuple[str, str, int]) -> tuple[int, Life] | None:
        columns = "offset_next, topic_id, cluster_id"
        select = f"SELECT {columns} FROM {self._table} WHERE {ROW}{self.dialect.lock}"  # noqa: S608 - quoted
        found = connection.execute(self.dialect.sql(select), row).fetchone()
        return None if found is None else (int(found[0]), Life(*found[1:]))

    def forget(self, group: str, topic: str, partition: int | None = None) -> int:
        """Drop a group's offsets: the topic, or the partition, is read as if for the first time. Returns how many."""
        return self._change(f"DELETE FROM {self._table}", group, topic, partition)  # noqa: S608 - quoted

    def adopt(self, group: str, topic: str) -> int:
        """Keep a group's offsets for whichever topic has the name at the next start. Returns how many."""
        return self._change(f"UPDATE {self._table} SET topic_id = '', cluster_id = ''", group, topic)  # noqa: S608

    def _change(self, what: str, group: str, topic: str, partition: int | None = None) -> int:
        self._session.refuse_if_open(WAITS_FOR_ITSELF)
        prepare(self, self._offsets_table)
        chosen = "" if partition is None else " AND partition_id = ?"
        row = (group, topic) if partition is None else (group, topic, partition)
        try:
            with closing(self.connect()) as connection:
                statement = f"{what} WHERE group_id = ? AND topic = ?{chosen}"
                changed = connection.execute(self.dialect.sql(statement), row).rowcount
                connection.commit()
        except Exception as error:  # noqa: BLE001 - each database has its own classes
            raise self.refusal(error, "the offsets were not changed") from None
        return int(changed)

    def move(self, connection: Connection, batch: Batch) -> dict[TopicPartition, int]:
        """Move the offsets from where the batch begins to where it ends; FencedError when they are elsewhere."""
        batch.refuse_commit()
        # Compare and set: only a row that stands where the batch begins is moved, so of two members one succeeds (K8).
        is_same = "offset_next = ? AND (topic_id = ? OR ? = '')"
        update = f"UPDATE {self._table} SET offset_next = ? WHERE {ROW} AND {is_same}"  # noqa: S608 - quoted
        ends = dict(batch.offsets)
        for place, start in batch.starts.items():
            row = (batch.group, place.topic, place.partition)
            topic_id = batch.lives.get(place.topic, Life()).topic_id
            # The id is given twice: an empty one, which no broker told, matches every row.
            state = (start, topic_id, topic_id)
            moved = place in ends and connection.execute(self.dialect.sql(update), (ends[place], *row, *state))
            if not moved or moved.rowcount != 1:
                raise FencedError(
                    f"the offset of {place} is not where the batch begins",
                    code=ILLEGAL_GENERATION,
                    because="another member of the group has processed these records, or somebody set the offset",
                    next_command="go on: the batch was rolled back, and the next one begins where the store stands",
                )
        return ends

    def transaction(self, batch: Batch) -> StoreTransaction:
        """A database transaction that also moves the batch's offsets."""
        self.refuse_foreign(batch)
        return StoreTransaction(self, self._session, batch, self._on_step)

    def refuse_foreign(self, batch: Batch) -> None:
        """A batch that did not begin where this store said."""
        if batch.owner is None or batch.owner.store is not self:
            raise ConfigError(
                "the batch was read by a consumer that keeps its offsets elsewhere",
                you_want="Consumer(…, guarantee=EXACTLY_ONCE, store=store)",
                because="where reading begins must come from the same store that remembers where it ended",
            )
        if not batch.owner.has_in_hand(batch):
            raise ConfigError(
                "the batch is not in hand any more",
                you_want="for batch in consumer.batches(): with store.transaction(batch) as t: …",
                because="it was committed or given up; a batch that was given up is handed out again, as another",
            )

    def refusal(self, error: Exception, what: str) -> SemelError:
        """The database's error without its parameters, which may be private."""
        if isinstance(error, SemelError):
            return error
        return SinkError(f"{what}: {type(error).__name__}", because=self.told(error))

    def told(self, error: Exception) -> str:
        """What the database says."""
        return str(error)

    def close(self) -> None:
        """Close; a transaction that is open is undone. The next transaction opens the store again."""
        self._session.close()

    def forked(self) -> None:
        """Open a connection of its own in a child process; the parent's is left to the parent."""
        self._session.forked()

    def __enter__(self) -> Self:
        """Nothing more is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
