"""Consumers whose results and offsets are in a store: what they are made of, and what they have kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

import semel
from semel.clients.records import Batch
from semel.clients.settings import Value
from semel.clients.stores import Store
from semel.guarantee import Guarantee
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


def values(batch: Batch) -> list[str]:
    return [(value or b"").decode() for value in batch.values()]


def keep(store: Store, batch: Batch) -> None:
    with store.transaction(batch) as t:
        t.executemany(f"INSERT INTO lines VALUES ({store.dialect.mark})", [(line,) for line in values(batch)])


def kept(store: Store) -> list[str]:
    with closing(store.connect()) as connection:
        return sorted(line for (line,) in connection.execute("SELECT line FROM lines").fetchall())


def work(consumer: semel.Consumer, finish: Callable[[Batch], object], last: str) -> list[str]:
    """Handle batches until this value has been."""
    found: list[str] = []
    for batch in consumer.batches(idle_ms_max=IDLE_MS):
        found += values(batch)
        finish(batch)
        if last in found:
            return found
    raise AssertionError(f"{last} does not come: {found}")
