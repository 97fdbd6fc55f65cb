"""M20 A partition is taken away from a batch that is worked on: its results are refused, not kept without offsets.

Keeps: K5 a partition that was taken away takes its offsets along: what was read of it is not committed any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import pytest

import semel
from semel.clients.records import Batch
from semel.clients.stores import Store
from semel.errors import FencedError
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.features.storing import keep, kept, store_of
from tests.support.waiting import eventually

RECORDS = 10
POLL_INTERVAL_MS = 2_000
LEAST: Final = Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
EAGER, COOPERATIVE = "range", "cooperative-sticky"
MEMBER = {
    "max.poll.interval.ms": POLL_INTERVAL_MS,
    "session.timeout.ms": POLL_INTERVAL_MS,
    "heartbeat.interval.ms": 100,
    "fetch.wait.max.ms": 20,
    "log_level": 0,
}


class Sink:
    """Where results go: a topic in transactions, or a database with the offsets."""

    def __init__(self, kafka: Kafka, kind: str, request: pytest.FixtureRequest, folder: Path) -> None:
        self.kafka = kafka
        self.target = kafka.topic()
        self.stores = [] if kind == "transaction" else [store_of(kind, request, folder)]

    def store(self) -> Store | None:
        """One for each member."""
        if not self.stores:
            return None
        first = self.stores[0]
        self.stores.append(
            semel.PostgresStore(first._conninfo)
            if isinstance(first, semel.PostgresStore)
            else semel.SqliteStore(cast("semel.SqliteStore", first)._path)
        )
        return self.stores[-1]

    def keep(self, consumer: semel.Consumer, batch: Batch, name: str) -> None:
        if consumer.store is not None:
            keep(consumer.store, batch)
            return
        values = [(value or b"").decode() for value in batch.values()]
        with (
            semel.Producer(self.kafka.bootstrap, guarantee=EXACTLY, transactional_id=name) as producer,
            producer.transaction() as tx,
        ):
            for value in values:
                tx.send(self.target, value)
            tx.commit_offsets(consumer)

    def results(self) -> list[str]:
        return kept(self.stores[0]) if self.stores else self.kafka.values(self.target)

    def close(self) -> None:
        for store in self.stores:
            store.close()


@contextmanager
def member(
    kafka: Kafka, topic: str, strategy: str, guarantee: Guarantee = EXACTLY, **options: Any
) -> Iterator[semel.Consumer]:
    """A member that is kept alive at work, and waits a second for its work when a rebalance comes."""
    settings = MEMBER | {"partition.assignment.strategy": strategy}
    with semel.Consumer(
        kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=settings, keep_alive_ms=50, **options
    ) as consumer:
        yield consumer


def all_partitions(consumer: semel.Consumer, records: int) -> tuple[Batch, Iterator[Batch]]:
    """One batch that has every record of the topic."""

    def whole() -> tuple[Batch, Iterator[Batch]] | None:
        batches = consumer.batches(idle_ms_max=20_000)
        batch = next(batches)
        return (batch, batches) if len(batch) == records else None

    return eventually(whole, 60, what="one batch with all records")


def work_off(consumer: semel.Consumer, sink: Sink, name: str, over: threading.Event) -> None:
    while not over.is_set():
        for batch in consumer.batches(idle_ms_max=200):
            sink.keep(consumer, batch, name)


@pytest.mark.quick(1)
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "transaction"])
def test_a_batch_that_lost_a_partition_is_refused_and_done_once(
    kafka: Kafka, request: pytest.FixtureRequest, tmp_path: Path, kind: str, strategy: str
) -> None:
    topic, sink = kafka.topic(2), Sink(kafka, kind, request, tmp_path)
    wanted, over = kafka.fill(topic, RECORDS, keyed=True), threading.Event()
    with ExitStack() as stack:
        slow = stack.enter_context(member(kafka, topic, strategy, store=sink.store()))
        batch, batches = all_partitions(slow, RECORDS)
        second = stack.enter_context(member(kafka, topic, strategy, store=sink.store()))
        other = threading.Thread(target=work_off, args=(second, sink, f"{topic}-second", over))
        other.start()
        try:
            eventually(lambda: slow._member.revocations, 60, what="the rebalance did not wait for ever")
            eventually(sink.results, 60, what="the second member has done what it got")
            with pytest.raises(FencedError, match="went to another member") as caught:
                sink.keep(slow, batch, f"{topic}-slow")
            assert "next batch" in caught.value.next_command
            del batches
            work_off_until(slow, sink, f"{topic}-slow", RECORDS)
        finally:
            over.set()
            other.join(60)
    assert sorted(sink.results(), key=int) == wanted
    sink.close()


def work_off_until(consumer: semel.Consumer, sink: Sink, name: str, records: int) -> None:
    def is_done() -> bool:
        for batch in consumer.batches(idle_ms_max=100):
            sink.keep(consumer, batch, name)
        return len(sink.results()) >= records

    eventually(is_done, 60, what="all records are done")


def take_away(kafka: Kafka, batch: Batch, guarantee: Guarantee = EXACTLY) -> None:
    """A second member comes, gets the partition, does nothing and leaves."""
    with member(kafka, batch.group, EAGER, guarantee) as second:
        eventually(lambda: second.next_batch(1, 100) or batch.lost, 60, what="the partition went")
    assert batch.lost


@pytest.mark.quick(1)
@pytest.mark.parametrize("in_a_task", [False, True], ids=["threads", "tasks"])
def test_a_commit_after_the_partitions_went_says_so(kafka: Kafka, in_a_task: bool) -> None:
    """At least once the records come again; the commit that did not happen is no success."""
    topic = kafka.topic()
    kafka.fill(topic, RECORDS)

    def threads() -> None:
        with member(kafka, topic, EAGER, LEAST) as slow:
            batch, batches = all_partitions(slow, RECORDS)
            take_away(kafka, batch, LEAST)
            with pytest.raises(FencedError, match="the commit was refused"):
                slow.commit()
            assert slow.commits_refused == 1
            del batches

    async def tasks() -> None:
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee=LEAST, settings=MEMBER, keep_alive_ms=50
        ) as slow:
            batches = slow.batches(idle_ms_max=20_000)
            batch = await anext(batches)
            await asyncio.to_thread(take_away, kafka, batch, LEAST)
            with pytest.raises(FencedError, match="the commit was refused"):
                await slow.commit()
            assert slow.commits_refused == 1

    asyncio.run(tasks()) if in_a_task else threads()
    assert kafka.committed(topic, topic) < 0


async def keep_in_task(kafka: Kafka, consumer: semel.AsyncConsumer, batch: Batch, target: str) -> None:
    """Where there is a store, there; else into a topic."""
    store = consumer.inner.store
    if store is not None:
        keep(store, batch)
        return
    async with (
        semel.AsyncProducer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=target) as producer,
        producer.transaction() as tx,
    ):
        for value in batch.values():
            await tx.send(target, value)
        await tx.commit_offsets(consumer)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "transaction"])
def test_a_task_s_batch_is_refused_alike(
    kafka: Kafka, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, RECORDS)
    store = None if kind == "transaction" else store_of(kind, request, tmp_path)

    async def main() -> None:
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=MEMBER, keep_alive_ms=50, store=store
        ) as slow:
            batches = slow.batches(idle_ms_max=20_000)
            batch = await anext(batches)
            await asyncio.to_thread(take_away, kafka, batch)
            with pytest.raises(FencedError, match="went to another member"):
                await keep_in_task(kafka, slow, batch, target)
            async for again in slow.batches(idle_ms_max=20_000):
                await keep_in_task(kafka, slow, again, target)
                if again[-1].offset == RECORDS - 1:
                    break

    asyncio.run(main())
    assert sorted(kafka.values(target) if store is None else kept(store), key=int) == wanted
    if store is not None:
        store.close()
