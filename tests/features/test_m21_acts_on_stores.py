"""M21 What people do to a store and to what it reads: each act is right, or it is refused with a way out.

Keeps: K7 results and offsets are in the store together or not at all; K8 of two members one commits.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import semel
from semel.clients.records import Batch
from semel.clients.stores import Store
from semel.errors import BrokerError, FencedError
from semel.guarantee import Guarantee
from tests.features.clusters import WAIT_S_MAX, Kafka
from tests.features.storing import IDLE_MS, Opens, Reads, keep, kept, values, work, write
from tests.support.waiting import eventually

EXACTLY = Guarantee.EXACTLY_ONCE
HOUR_MS = 3_600_000
A, B, C = ([f"{letter}{number}" for number in range(3)] for letter in "abc")


@pytest.fixture
def topic(embedded_kafka: Kafka) -> str:
    """Three records are in it."""
    name = embedded_kafka.topic()
    write(embedded_kafka, name, A)
    return name


class Backup:
    """What was in the store once: its results and its offsets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        with closing(store.connect()) as connection:
            self.rows = {
                table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("lines", "semel_offsets")
            }

    def restore(self) -> None:
        """In one transaction, as pg_restore --single-transaction does."""
        with closing(self.store.connect()) as connection:
            connection.execute(self.store.dialect.begin or "SELECT 1")
            for table, rows in self.rows.items():
                connection.execute(f"DELETE FROM {table}")
                for row in rows:
                    marks = ", ".join(self.store.dialect.mark for _ in row)
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
            connection.commit()


def keeping(store: Store) -> Callable[[Batch], None]:
    """A program that goes on when it is fenced, as the error says."""

    def finish(batch: Batch) -> None:
        with suppress(FencedError):
            keep(store, batch)

    return finish


@pytest.mark.quick(1)
@pytest.mark.parametrize("is_running", [False, True], ids=["stopped", "running"])
def test_a_restored_store_repeats_exactly_what_it_lost(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store, is_running: bool
) -> None:
    consumer = opened(embedded_kafka, topic, EXACTLY, store)
    work(consumer, keeping(store), A[-1])
    backup = Backup(store)
    write(embedded_kafka, topic, B)
    work(consumer, keeping(store), B[-1])
    if not is_running:
        consumer.close()
    backup.restore()
    assert kept(store) == A
    write(embedded_kafka, topic, C)
    if not is_running:
        consumer = opened(embedded_kafka, topic, EXACTLY, store)
    until_kept(consumer, store, A + B + C)
    consumer.close()


def until_kept(consumer: Reads, store: Store, wanted: list[str]) -> None:
    """Work until the results are these; nothing twice, nothing missing."""
    for batch in consumer.batches(idle_ms_max=IDLE_MS):
        keeping(store)(batch)
        if len(kept(store)) >= len(wanted):
            break
    assert kept(store) == wanted


def test_a_file_that_was_exchanged_under_a_running_consumer_is_found(
    embedded_kafka: Kafka, opened: Opens, topic: str, tmp_path: Path
) -> None:
    """The open connection leads to the old file, which has no name any more: results would go there and be lost."""
    path, copy = tmp_path / "s.db", tmp_path / "backup.db"
    with semel.SqliteStore(path) as store:
        store.make("CREATE TABLE lines (line text)")
        with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
            work(consumer, keeping(store), A[-1])
            shutil.copy(path, copy)
            write(embedded_kafka, topic, B)
            work(consumer, keeping(store), B[-1])
            copy.rename(path)
            write(embedded_kafka, topic, C)
            until_kept(consumer, store, A + B + C)


@pytest.mark.full
def test_the_asyncio_consumer_follows_a_restored_store(embedded_kafka: Kafka, topic: str, store: Store) -> None:
    store.offsets(topic, [], lambda _: 0)  # makes the table
    backups = [Backup(store)]  # of when the store knew nothing

    async def read() -> None:
        async with semel.AsyncConsumer(
            embedded_kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, store=store, settings={"log_level": 0}
        ) as consumer:
            async for batch in consumer.batches(idle_ms_max=IDLE_MS):
                await asyncio.to_thread(keeping(store), batch)
                if backups and len(kept(store)) == len(A):
                    backups.pop().restore()
                    await asyncio.to_thread(write, embedded_kafka, topic, B)
                elif len(kept(store)) >= len(A + B):
                    break

    asyncio.run(read())
    assert kept(store) == A + B


@pytest.mark.full
def test_two_groups_share_a_store(embedded_kafka: Kafka, opened: Opens, topic: str, store: Store) -> None:
    for group in ("one", "two", "one", "two"):
        with opened(embedded_kafka, topic, EXACTLY, store, group=topic + group) as consumer:
            for batch in consumer.batches(idle_ms_max=IDLE_MS if len(kept(store)) < 2 * len(A) else 500):
                keep(store, batch)
                if values(batch)[-1] == A[-1]:
                    break
    assert kept(store) == sorted(A + A)


@pytest.mark.full
def test_partitions_that_are_added_are_read_from_their_beginning(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store
) -> None:
    with opened(embedded_kafka, topic, EXACTLY, store, topic_metadata_refresh_interval_ms=100) as consumer:
        work(consumer, keeping(store), A[-1])
        admin = AdminClient({"bootstrap.servers": embedded_kafka.bootstrap, "log_level": 0})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_S_MAX)
        write(embedded_kafka, topic, B, partition=1)
        until_kept(consumer, store, A + B)
    assert store.forget(topic, topic, 1) == 1
    assert store.forget(topic, topic) == 1


@pytest.mark.full
def test_a_static_member_goes_on_where_the_store_stands(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store
) -> None:
    for new in (B, C):
        with opened(embedded_kafka, topic, EXACTLY, store, group_instance_id="one") as consumer:
            write(embedded_kafka, topic, new)
            until_kept(consumer, store, A + B if new is B else A + B + C)


@pytest.mark.quick(1)
def test_records_that_are_gone_are_told_until_the_offset_is_dropped(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store
) -> None:
    """Retention overtook the store while nobody read."""
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        work(consumer, keeping(store), A[-1])
    write(embedded_kafka, topic, B)
    admin = AdminClient({"bootstrap.servers": embedded_kafka.bootstrap, "log_level": 0})
    left = len(A) + 1
    admin.delete_records([TopicPartition(topic, 0, left)])[TopicPartition(topic, 0)].result(WAIT_S_MAX)
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        for _ in range(2):
            with pytest.raises(BrokerError, match="cannot be read") as caught:
                work(consumer, keeping(store), B[-1])
    way_out = caught.value.next_command.split(", and another")[0]
    assert eval(way_out, {"store": store}) == 1
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        work(consumer, keeping(store), B[-1])
    assert kept(store) == A + B[1:]


@pytest.mark.full
def test_the_groups_own_offsets_mean_nothing_to_a_consumer_with_a_store(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store
) -> None:
    """kafka-consumer-groups --reset-offsets moves the group's; the results say where reading goes on."""
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        work(consumer, keeping(store), A[-1])
    embedded_kafka.commit_start(topic, topic)
    write(embedded_kafka, topic, B)
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        until_kept(consumer, store, A + B)


@pytest.mark.quick(1)
def test_records_of_transactions_are_kept_when_they_are_committed_and_not_before(
    embedded_kafka: Kafka, opened: Opens, topic: str, store: Store
) -> None:
    """The marks, and what was aborted, have offsets too: the store passes them and stands behind them."""
    settings = {"bootstrap.servers": embedded_kafka.bootstrap, "transactional.id": topic, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(WAIT_S_MAX)

    def send(lines: list[str]) -> None:
        producer.begin_transaction()
        for line in lines:
            producer.produce(topic, line)
        assert producer.flush(WAIT_S_MAX) == 0

    send(["aborted"])
    producer.abort_transaction(WAIT_S_MAX)
    send(B)
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        until_kept(consumer, store, A)
        assert consumer.next_batch(1, 100) is None, "nobody knows yet whether these happened"
        producer.commit_transaction(WAIT_S_MAX)
        until_kept(consumer, store, A + B)
    write(embedded_kafka, topic, C)
    with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
        until_kept(consumer, store, A + B + C)


@pytest.mark.full
def test_times_that_go_back_change_nothing(embedded_kafka: Kafka, opened: Opens, store: Store) -> None:
    """A producer's clock is set back again and again: offsets say what is next, no clock does."""
    topic = embedded_kafka.topic()
    producer = Producer({"bootstrap.servers": embedded_kafka.bootstrap, "enable.idempotence": True, "log_level": 0})
    now_ms = int(time.time() * 1000)
    for number, line in enumerate(A + B + C):
        producer.produce(topic, line, timestamp=now_ms - number * HOUR_MS)
    assert producer.flush(WAIT_S_MAX) == 0
    for wanted in (A, A + B + C):  # the second reader goes on where the first stopped
        with opened(embedded_kafka, topic, EXACTLY, store) as consumer:
            for batch in consumer.batches(records_max=len(A), idle_ms_max=IDLE_MS):
                keep(store, batch)
                if len(kept(store)) >= len(wanted):
                    break
            assert kept(store) == wanted


@pytest.mark.full
@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
def test_a_group_without_a_store_reads_added_partitions_too(
    embedded_kafka: Kafka, opened: Opens, guarantee: Guarantee
) -> None:
    """At most once as far as records come after the partition was found: it does not choose a place by itself."""
    topic = embedded_kafka.topic()
    embedded_kafka.commit_start(topic, topic)
    write(embedded_kafka, topic, A)
    admin = AdminClient({"bootstrap.servers": embedded_kafka.bootstrap, "log_level": 0})
    with opened(embedded_kafka, topic, guarantee, topic_metadata_refresh_interval_ms=100) as consumer:
        found = work(consumer, lambda _: None, A[-1])
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_S_MAX)
        if guarantee is Guarantee.AT_MOST_ONCE:
            eventually(lambda: consumer.next_batch(1, 50) or len(consumer.assignment) == 2, WAIT_S_MAX, what="both")
        write(embedded_kafka, topic, B, partition=1)
        found += work(consumer, lambda _: None, B[-1])
    assert sorted(set(found)) == A + B
    if guarantee is Guarantee.AT_MOST_ONCE:  # at least once, a batch that was left comes again after the rebalance
        assert len(found) == len(A + B)
