"""Consumers of threads and of tasks, with their results and offsets in a store or not, and what they have kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pytest
from confluent_kafka import Producer

import semel
from semel.clients.records import Batch
from semel.clients.settings import Value
from semel.clients.stores import Store
from semel.guarantee import Guarantee
from semel.protocol.topic_partition import TopicPartition
from tests.features.clusters import WAIT_S_MAX, Kafka

IDLE_MS = 10_000


def write(kafka: Kafka, topic: str, values: list[str], *, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "log_level": 0})
    failed = list[object]()
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert (producer.flush(WAIT_S_MAX), failed) == (0, [])


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with store_of(request.param, request, tmp_path) as made:
        yield made


def store_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Store:
    """A store of this kind, with an empty table for results."""
    made: Store
    if kind == "sqlite":
        made = semel.SqliteStore(folder / "s.db")
    else:
        made = semel.PostgresStore(request.getfixturevalue("postgres").conninfo)
    made.make("DROP TABLE IF EXISTS lines", "CREATE TABLE lines (line text)")
    return made


def consumer_of(
    kafka: Kafka, topic: str, guarantee: Guarantee, store: Store | None = None, *, group: str = "", **settings: Value
) -> semel.Consumer:
    given = {"log_level": 0} | {name.replace("_", "."): value for name, value in settings.items()}
    return semel.Consumer(
        kafka.bootstrap, [topic], group=group or topic, guarantee=guarantee, store=store, settings=given
    )


class Reads(Protocol):
    """What a Consumer can do, and an AsyncConsumer in its tasks."""

    def batches(self, *, records_max: int = ..., idle_ms_max: float | None = ...) -> Iterator[Batch]: ...
    def next_batch(self, records_max: int, idle_ms_max: float | None) -> Batch | None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    @property
    def assignment(self) -> frozenset[TopicPartition]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class InTasks:
    """An AsyncConsumer: each call is a task, on a loop that runs as long as the call."""

    def __init__(self, consumer: semel.AsyncConsumer) -> None:
        """Open it."""
        self.consumer, self._runner, self._is_closed = consumer, asyncio.Runner(), False
        self._runner.run(consumer.__aenter__())

    def batches(self, *, records_max: int = 1_000, idle_ms_max: float | None = None) -> Iterator[Batch]:
        batches = self.consumer.batches(records_max=records_max, idle_ms_max=idle_ms_max)

        async def following() -> Batch | None:
            return await anext(batches, None)

        try:
            while (batch := self._runner.run(following())) is not None:
                yield batch
        finally:
            if not self._is_closed:
                self._runner.run(batches.aclose())

    def next_batch(self, records_max: int, idle_ms_max: float | None) -> Batch | None:
        return self._runner.run(self.consumer.worker.run(self.consumer.inner.next_batch, records_max, idle_ms_max))

    def commit(self) -> None:
        self._runner.run(self.consumer.commit())

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._runner.run(self.consumer.assignment())

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._runner.run(self.consumer.close())
            self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Opens(Protocol):
    """Makes a consumer of one kind."""

    def __call__(
        self, kafka: Kafka, topic: str, guarantee: Guarantee, store: Store | None = ..., *, group: str = ..., **_: Value
    ) -> Reads: ...


def task_consumer_of(
    kafka: Kafka, topic: str, guarantee: Guarantee, store: Store | None = None, *, group: str = "", **settings: Value
) -> InTasks:
    given = {"log_level": 0} | {name.replace("_", "."): value for name, value in settings.items()}
    return InTasks(
        semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=group or topic, guarantee=guarantee, store=store, settings=given
        )
    )


def values(batch: Batch) -> list[str]:
    return [(value or b"").decode() for value in batch.values()]


def keep(store: Store, batch: Batch) -> None:
    with store.transaction(batch) as t:
        t.executemany(f"INSERT INTO lines VALUES ({store.dialect.mark})", [(line,) for line in values(batch)])


def kept(store: Store) -> list[str]:
    with closing(store.connect()) as connection:
        return sorted(line for (line,) in connection.execute("SELECT line FROM lines").fetchall())


def work(consumer: Reads, finish: Callable[[Batch], object], last: str) -> list[str]:
    """Handle batches until this value has been."""
    found: list[str] = []
    for batch in consumer.batches(idle_ms_max=IDLE_MS):
        found += values(batch)
        finish(batch)
        if last in found:
            return found
    raise AssertionError(f"{last} does not come: {found}")


OPENS: dict[str, Opens] = {"threads": consumer_of, "tasks": task_consumer_of}


@pytest.fixture(params=["threads", pytest.param("tasks", marks=pytest.mark.full)])
def opened(request: pytest.FixtureRequest) -> Opens:
    """How a consumer is opened."""
    return OPENS[request.param]
