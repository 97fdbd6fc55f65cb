"""A worker of any kind with its topic, and what an operator does to both: for programs that are drawn by chance."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

import semel
from semel.clients.producer import Transactional
from semel.clients.records import Batch
from semel.errors import BrokerError, ConfigError
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.support.recreating import recreate_topic
from tests.support.waiting import eventually

EXACTLY: Final = Guarantee.EXACTLY_ONCE
RECORDS, BATCH_RECORDS, IDLE_MS_MAX, WAIT_S_MAX = 6, 3, 50, 60
MEMBER = {
    "max.poll.interval.ms": 600,
    "session.timeout.ms": 500,
    "heartbeat.interval.ms": 50,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}
MOST, LEAST, TRANSACTION = "at most once", "at least once", "transaction"
SQLITE, POSTGRES = STORES = "SQLite", "PostgreSQL"
# What may come at a record, in a thread or in a task. `break` leaves the loop over the records, `return` the worker.
# What a kind of worker has not (a store to restore, a task to cancel) comes as nothing.
ACTS = (
    "raise",
    "break",
    "return",
    "close the generator",
    "commit in finally",
    "second member",
    "kill",
    "cancel",
    "rollback",
    "restore",
    "recreate",
    "compact",
)
COMPACTED = (("cleanup.policy", "compact"), ("segment.bytes", "150"), ("min.cleanable.dirty.ratio", "0.01"))


@dataclass(frozen=True, slots=True)
class Life:
    """One life of the worker: what comes, and before which of its records."""

    act: str
    at: int


PEACE: Final = Life("none", -1)


class Struck(Exception):
    """What the program raises by itself."""


@dataclass(slots=True, kw_only=True)
class Program:
    """A worker of one kind, its topic, and what it has done."""

    kind: str
    kafka: Kafka
    topic: str
    target: str
    path: Path
    conninfo: str
    producers: dict[str, semel.Producer[Transactional]]
    task_producer: semel.AsyncProducer[Transactional]
    processed: list[str] = field(default_factory=list)
    struck: list[Life] = field(default_factory=list)
    wanted: dict[str, str] = field(default_factory=dict)  # what the topic has now, by key
    written: set[str] = field(default_factory=set)  # what it ever had
    end: int = 0  # where the topic ends
    stores: ExitStack = field(default_factory=ExitStack)
    operators: list[threading.Thread] = field(default_factory=list)  # who wait until the worker's transaction is over
    statement: Callable[[str], object] = print

    @property
    def guarantee(self) -> Guarantee:
        return {MOST: Guarantee.AT_MOST_ONCE, LEAST: Guarantee.AT_LEAST_ONCE}.get(self.kind, EXACTLY)

    def store(self) -> semel.SqliteStore | semel.PostgresStore | None:
        if self.kind == SQLITE:
            return self.stores.enter_context(semel.SqliteStore(self.path))
        if self.kind == POSTGRES:
            return self.stores.enter_context(semel.PostgresStore(self.conninfo, offsets_table=self.topic))
        return None

    def open(self) -> semel.Consumer:
        return semel.Consumer(
            self.kafka.bootstrap,
            [self.topic],
            group=self.topic,
            guarantee=self.guarantee,
            settings=MEMBER,
            store=self.store(),
            keep_alive_ms=20,
        )

    @contextmanager
    def transaction(self, consumer: semel.Consumer, batch: Batch, name: str) -> Iterator[Callable[[str], object]]:
        """Where a batch's results go; what is given is called with each."""
        if self.kind in STORES:
            assert isinstance(consumer.store, semel.SqliteStore | semel.PostgresStore)
            with consumer.store.transaction(batch) as t:
                self.statement = t.execute
                insert = f"INSERT INTO {self.results_table} VALUES ({'?' if self.kind == SQLITE else '%s'})"
                yield lambda value: t.execute(insert, [value])
        elif self.kind == TRANSACTION:
            with self.producers[name].transaction() as tx:
                tx.commit_offsets(consumer)
                yield lambda value: tx.send(self.target, value)
        else:
            yield self.processed.append

    @asynccontextmanager
    async def task_transaction(
        self, consumer: semel.AsyncConsumer, batch: Batch
    ) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
        """The same for a task."""
        if self.kind == TRANSACTION:
            async with self.task_producer.transaction() as tx:
                await tx.commit_offsets(consumer)
                yield lambda value: tx.send(self.target, value)
            return
        with self.transaction(consumer.inner, batch, "one") as put:

            async def put_at_once(value: str) -> None:
                put(value)

            yield put_at_once

    def results(self) -> Counter[str]:
        """Counted by somebody who knows nothing of consumers."""
        if self.kind == TRANSACTION:
            return self.kafka.counts(self.target)
        if self.kind in STORES:
            return Counter(line for (line,) in self.rows(f"SELECT line FROM {self.results_table}"))
        return Counter(self.processed)

    @property
    def results_table(self) -> str:
        return f'"results of {self.topic}"'

    def rows(self, select: str) -> list[tuple[Any, ...]]:
        """Asked for without semel."""
        database = sqlite3.connect(self.path) if self.kind == SQLITE else psycopg.connect(self.conninfo)
        with closing(database) as connection:
            return connection.execute(select).fetchall()

    def is_over(self) -> bool:
        """Whether the offsets say that all is done."""
        if self.kind not in STORES:
            return self.kafka.committed(self.topic, self.topic) == self.end
        table = "semel_offsets" if self.kind == SQLITE else f'"{self.topic}"'
        with suppress(sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return self.rows(f"SELECT offset_next FROM {table}") == [(self.end,)]
        return False

    def fill(self, filler: Producer, prefix: str) -> None:
        """The first records of the topic, each with a key of its own."""
        self.wanted, self.end = {}, 0
        for number in range(RECORDS):
            self.append(filler, str(number), f"{prefix}{number}")
        assert filler.flush(WAIT_S_MAX) == 0

    def append(self, filler: Producer, key: str, value: str) -> None:
        filler.produce(self.topic, value, key)
        self.wanted[key] = value
        self.written.add(value)
        self.end += 1

    def prepare(self) -> None:
        """The table for the results, and a backup from before the first of them."""
        store = self.store()
        if store is not None:
            with store:
                store.make(f"CREATE TABLE {self.results_table} (line text)")
        if self.kind == SQLITE:
            shutil.copy(self.path, self.path.with_suffix(".backup"))

    def operate(self, act: str) -> None:
        """What comes from outside, or is done in spite of a refusal."""
        if act == "recreate":
            self.recreate()
        elif act == "compact":
            self.compact()
            raise Struck  # what is read again has gaps
        elif act == "rollback" and self.kind in STORES:
            with pytest.raises(ConfigError, match="ROLLBACK is not for"):
                self.statement("ROLLBACK")
        elif act == "restore" and self.kind == SQLITE:  # the backup is put where the store is, while it is used
            copy = self.path.with_suffix(".copy")
            shutil.copy(self.path.with_suffix(".backup"), copy)
            copy.replace(self.path)
        elif act == "restore" and self.kind == POSTGRES:
            self.operators.append(threading.Thread(target=self.restore_postgres))
            self.operators[-1].start()

    def restore_postgres(self) -> None:
        """Results and offsets go back to where nothing was done, in one transaction, as a restore of a dump does."""
        with psycopg.connect(self.conninfo) as connection:
            for table in (self.results_table, f'"{self.topic}"'):
                connection.execute(f"LOCK TABLE {table}")
            for table in (self.results_table, f'"{self.topic}"'):
                connection.execute(f"DELETE FROM {table}")

    def wait_for_operators(self) -> None:
        while self.operators:
            operator = self.operators.pop()
            operator.join(WAIT_S_MAX)
            assert not operator.is_alive()

    def recreate(self) -> None:
        """The topic becomes another, with other records at the same offsets."""
        recreate_topic(self.kafka.bootstrap, self.topic, 1)
        self.fill(self.another_filler(), f"{len(self.written)} and ")

    def another_filler(self) -> Producer:
        """A producer that knows nothing: one that knows a topic of before may wait for its leader."""
        return Producer({"bootstrap.servers": self.kafka.bootstrap, "linger.ms": 0, "log_level": 0})

    def compact(self) -> None:
        """Every second key gets another value, and the cleaner takes the old ones, which may be missing afterwards."""
        settings = [ConfigEntry(name, to, incremental_operation=AlterConfigOpType.SET) for name, to in COMPACTED]
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
        changed = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=settings)
        admin.incremental_alter_configs([changed])[changed].result(WAIT_S_MAX)
        filler, before = self.another_filler(), len(self.written)
        # The cleaner does not look into the last segment: keys that come once only are there.
        for key in ("1", "3", "5", f"a{before}", f"b{before}", f"c{before}"):
            self.append(filler, key, f"{before} and {key}")
            assert filler.flush(WAIT_S_MAX) == 0  # a batch of its own, and so a segment
        eventually(self.is_compacted, WAIT_S_MAX, what="the cleaner has left one value of each key")

    def is_compacted(self) -> bool:
        return sorted(self.kafka.values(self.topic)) == sorted(self.wanted.values())

    def take_over(self) -> None:
        """What the refusals of another topic say that an operator should do."""
        store = self.store()
        if store is not None:
            with store:
                store.forget(self.topic, self.topic)
        elif self.kafka.committed(self.topic, self.topic) >= 0:
            with self.open() as consumer, pytest.raises(BrokerError, match="created again") as told:
                eventually(lambda: consumer.next_batch(1, IDLE_MS_MAX), WAIT_S_MAX, what="it is refused")
            assert "--reset-offsets --to-earliest" in told.value.next_command
            self.kafka.commit_start(self.topic, self.topic)
        elif self.kind == MOST:
            self.kafka.commit_start(self.topic, self.topic)
