"""Copying that outlives a cluster's faults: a program with semel's clients, started again whenever it ends in an error.

Each way of copying is what its guarantee's user writes. A supervisor starts it again until everything is copied; what
came out is counted afterwards, record by record.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

import semel
from semel.clients.records import Batch
from semel.clients.steps import ClientStep
from semel.errors import BrokerError, SemelError
from semel.guarantee import Anomaly, Guarantee
from tests.features.clusters import Kafka, lost, repeated
from tests.support.waiting import eventually

LIVES_MAX = 12
IDLE_MS_MAX = 3_000
WAIT_MS_MAX = 5_000
BATCH_RECORDS = 4
STRUCK_AT = 3
ASK_S_MAX, ANSWER_S_MAX = 3.0, 60.0
SENT = "sent"
# Whoever is not answered asks again soon, as the cells have seconds and not minutes.
HASTY = {
    "socket.timeout.ms": 1_500,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}
SENDING = HASTY | {"linger.ms": 0, "request.timeout.ms": 1_000}
READING = HASTY | {"fetch.wait.max.ms": 20, "fetch.error.backoff.ms": 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is to be copied from where to where; `on_step` is called after each step of the work."""

    kafka: Kafka
    source: str
    target: str
    values: list[str]
    ends: tuple[int, ...]
    store: Path
    on_step: Callable[[str], None] = lambda _: None

    @classmethod
    def prepared(cls, kafka: Kafka, records: int, store: Path) -> Self:
        """Something to copy on three replicas, and a group that stands at its beginning."""
        source, target = kafka.topic(2, replicas=3), kafka.topic(1, replicas=3)
        values = kafka.fill(source, records, keyed=True)
        kafka.commit_start(source, source, 2)
        return cls(kafka=kafka, source=source, target=target, values=values, ends=kafka.ends(source), store=store)

    @property
    def name(self) -> str:
        """The group, and the transactional id."""
        return self.source

    @contextmanager
    def reader(self, guarantee: Guarantee, store: semel.SqliteStore | None = None) -> Iterator[Batches]:
        """A member of the group, for one life."""
        with semel.Consumer(
            self.kafka.bootstrap,
            [self.source],
            group=self.name,
            guarantee=guarantee,
            store=store,
            settings=READING,
            wait_ms_max=WAIT_MS_MAX,
            on_step=self.on_step,
        ) as consumer:
            yield Batches(consumer, self.ends)


class AtMoment:
    """Strikes once, when the work has come to a step for the third time."""

    def __init__(self, moment: str, strike: Callable[[], None]) -> None:
        """Nothing has happened yet."""
        self._moment, self._strike, self._left = moment, strike, STRUCK_AT

    def __call__(self, step: str) -> None:
        if step == self._moment:
            self._left -= 1
            if self._left == 0:
                self._strike()


class Batches:
    """What one consumer hands out, up to the end of the source."""

    def __init__(self, consumer: semel.Consumer, ends: tuple[int, ...]) -> None:
        """Nothing is read yet."""
        self.consumer = consumer
        self._left = set(enumerate(ends))

    def __iter__(self) -> Iterator[Batch]:
        """Batches until the source is at its end, or nothing comes."""
        for batch in self.consumer.batches(records_max=BATCH_RECORDS, idle_ms_max=IDLE_MS_MAX):
            yield batch
            self._left -= {(place.partition, offset) for place, offset in batch.offsets.items()}
            if not self._left:
                return


def copy_at_most_once(errand: Errand) -> None:
    """Nobody looks back: what could not be sent is gone."""
    guarantee = Guarantee.AT_MOST_ONCE
    with (
        semel.Producer(errand.kafka.bootstrap, guarantee=guarantee, settings=SENDING) as producer,
        errand.reader(guarantee) as batches,
    ):
        for batch in batches:
            for record in batch:
                try:
                    producer.send(errand.target, record.value).result()
                except BrokerError:
                    continue
                finally:
                    errand.on_step(SENT)


def copy_at_least_once(errand: Errand) -> None:
    """What could not be sent ends the program; the next one reads it again."""
    guarantee = Guarantee.AT_LEAST_ONCE
    with (
        semel.Producer(errand.kafka.bootstrap, guarantee=guarantee, settings=SENDING) as producer,
        errand.reader(guarantee) as batches,
    ):
        for batch in batches:
            for record in batch:
                producer.send(errand.target, record.value).result()
                errand.on_step(SENT)
        batches.consumer.commit()


def copy_in_transactions(errand: Errand) -> None:
    """Records and offsets together."""
    with (
        semel.Producer(
            errand.kafka.bootstrap,
            guarantee=Guarantee.EXACTLY_ONCE,
            transactional_id=errand.name,
            settings=SENDING,
            wait_ms_max=WAIT_MS_MAX,
            on_step=errand.on_step,
        ) as producer,
        errand.reader(Guarantee.EXACTLY_ONCE) as batches,
    ):
        for batch in batches:
            with producer.transaction() as tx:
                for record in batch:
                    tx.send(errand.target, record.value)
                tx.flush()
                tx.commit_offsets(batches.consumer)


def copy_to_store(errand: Errand) -> None:
    """Results and offsets together, in a database."""
    with (
        semel.SqliteStore(errand.store, on_step=errand.on_step) as store,
        errand.reader(Guarantee.EXACTLY_ONCE, store) as batches,
    ):
        store.make("CREATE TABLE IF NOT EXISTS results (line text)")
        for batch in batches:
            with store.transaction(batch) as t:
                for record in batch:
                    t.execute("INSERT INTO results VALUES (?)", [(record.value or b"").decode()])


def send_idempotently(errand: Errand) -> None:
    """No transaction and one session: it lives through everything, for its successor could not know what arrived."""
    with semel.Producer(errand.kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, settings=SENDING) as producer:
        for value in errand.values:
            producer.send(errand.target, value).result()
            errand.on_step(SENT)


def is_committed(errand: Errand) -> bool:
    """Whether the group has come to the end of the source; its coordinator may be on the move."""
    return eventually(lambda: _standing(errand), ANSWER_S_MAX, what="the group's offsets are told") == errand.ends


def _standing(errand: Errand) -> tuple[int, ...] | None:
    """Where the group stands in each partition, or None when nobody says."""
    member = Consumer({"bootstrap.servers": errand.kafka.bootstrap, "group.id": errand.name, **HASTY})
    try:
        places = [TopicPartition(errand.source, number) for number in range(len(errand.ends))]
        return tuple(one.offset for one in member.committed(places, ASK_S_MAX))
    except KafkaException:
        return None
    finally:
        member.close()


def is_stored(errand: Errand) -> bool:
    """Whether the store's offsets have; a program that came to nothing has not even made the table."""
    tables = _select(errand, "SELECT name FROM sqlite_master WHERE name = 'semel_offsets'")
    rows = _select(errand, "SELECT partition_id, offset_next FROM semel_offsets") if tables else []
    return dict(rows) == dict(enumerate(errand.ends))


def in_target(errand: Errand) -> Counter[str]:
    """How often each value stands in the target."""
    return errand.kafka.counts(errand.target)


def in_store(errand: Errand) -> Counter[str]:
    """How often each value stands in the store."""
    return Counter(str(line) for (line,) in _select(errand, "SELECT line FROM results"))


def _select(errand: Errand, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(errand.store)) as connection:
        return connection.execute(query).fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to get records from here to there."""

    name: str
    guarantee: Guarantee
    life: Callable[[Errand], None]
    moment: str  # the step at which faults strike: something has been done, and nothing is finished
    apis: frozenset[str]  # what its clients ask the cluster
    is_done: Callable[[Errand], bool] = is_committed
    found: Callable[[Errand], Counter[str]] = in_target

    def __str__(self) -> str:
        return self.name

    def survive(self, errand: Errand) -> list[SemelError]:
        """Start the work again and again until it is done; the errors on the way."""
        errors: list[SemelError] = []
        for _ in range(LIVES_MAX):
            try:
                self.life(errand)
            except SemelError as error:
                errors.append(error)
            if self.is_done(errand):
                return errors
        raise AssertionError(errors)

    def check(self, errand: Errand, what: str) -> tuple[int, int]:
        """How many are lost and how many repeated; nothing that the guarantee does not allow."""
        found = self.found(errand)
        missing, surplus = lost(errand.values, found), repeated(found)
        told = f"{errand.kafka.name}, {self}, {what}: lost {missing}, repeated {surplus}"
        sys.stdout.write(f"\n  {told}\n")
        assert missing == 0 or self.guarantee.allows(Anomaly.LOST), told
        assert surplus == 0 or self.guarantee.allows(Anomaly.DUPLICATED), told
        return missing, surplus


GROUP = frozenset({"Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "Fetch"})
TRANSACTION = frozenset({"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"})
SEND = frozenset({"Metadata", "Produce"})
MOST = Way(
    name="at most once", guarantee=Guarantee.AT_MOST_ONCE, life=copy_at_most_once, moment=SENT, apis=GROUP | SEND
)
LEAST = Way(
    name="at least once", guarantee=Guarantee.AT_LEAST_ONCE, life=copy_at_least_once, moment=SENT, apis=GROUP | SEND
)
TRANSACTIONS = Way(
    name="exactly once, transactions",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=copy_in_transactions,
    moment=ClientStep.OFFSETS_SENT,
    apis=GROUP - {"OffsetCommit"} | SEND | TRANSACTION,
)
STORE = Way(
    name="exactly once, store",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=copy_to_store,
    moment=ClientStep.BEGUN,
    apis=GROUP - {"OffsetCommit", "OffsetFetch"},
    is_done=is_stored,
    found=in_store,
)
SESSION = Way(
    name="exactly once, one session",
    guarantee=Guarantee.EXACTLY_ONCE,
    life=send_idempotently,
    moment=SENT,
    apis=SEND | {"InitProducerId"},
    is_done=lambda _: True,
)
WAYS = (MOST, LEAST, TRANSACTIONS, STORE, SESSION)
