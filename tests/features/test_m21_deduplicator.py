"""M21 Idempotent processing by key: duplicates arrive, effects happen once; without it they happen twice.

Keeps: K9 inside the window a key is admitted once, also across crashes, restarts and members of a group.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import semel
from semel.broker.runtime.intercept import DropResponse
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka

PAYMENTS = [f"payment-{number}" for number in range(8)]


def pay_twice(kafka: Kafka, topic: str) -> None:
    """A producer without a transactional id is restarted before it knew what arrived, and sends everything again."""
    for _ in range(2):
        with semel.Producer(kafka.bootstrap, guarantee=Guarantee.AT_LEAST_ONCE) as producer:
            for payment in PAYMENTS:
                producer.send(topic, "1", key=payment)


def book(kafka: Kafka, topic: str, store: semel.SqliteStore, *, how: str, crash_at: int | None = None) -> None:
    """Book every payment: as it comes, by key, or only when the Deduplicator admits it."""
    seen = semel.Deduplicator(store, "payments", window_records=1000)
    with semel.Consumer(
        kafka.bootstrap, [topic], group=topic, guarantee=Guarantee.EXACTLY_ONCE, store=store
    ) as consumer:
        for number, batch in enumerate(consumer.batches(records_max=3, idle_ms_max=1500)):
            with store.transaction(batch) as t:
                for record in batch:
                    key = record.key or b""
                    if how == "upsert":
                        t.execute("INSERT INTO booked VALUES (?) ON CONFLICT DO NOTHING", [key])
                    elif how == "blindly" or seen.admit(t, key, record.timestamp_ms):
                        t.execute("INSERT INTO entries VALUES (?)", [key])
                if number == crash_at:
                    raise ZeroDivisionError


def entries(store: semel.SqliteStore, table: str) -> int:
    with closing(store.connect()) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def store(tmp_path: Path) -> semel.SqliteStore:
    made = semel.SqliteStore(tmp_path / "s.db")
    made.make("CREATE TABLE entries (payment blob)", "CREATE TABLE booked (payment blob PRIMARY KEY)")
    return made


@pytest.mark.quick(2)
@pytest.mark.parametrize(("how", "times"), [("once", 1), ("upsert", 1), ("blindly", 2)])
def test_duplicates_arrive_and_effects_happen(kafka: Kafka, store: semel.SqliteStore, how: str, times: int) -> None:
    topic = kafka.topic(2)
    pay_twice(kafka, topic)
    assert len(kafka.values(topic)) == 2 * len(PAYMENTS), "the duplicates are there"
    with pytest.raises(ZeroDivisionError):
        book(kafka, topic, store, how=how, crash_at=1)
    book(kafka, topic, store, how=how)
    assert entries(store, "booked" if how == "upsert" else "entries") == times * len(PAYMENTS)
    store.close()


def test_a_lost_acknowledgement_is_booked_once(cluster: semel.Cluster, faulty: Kafka, store: semel.SqliteStore) -> None:
    topic = faulty.topic()
    hook = cluster.intercept("Produce", DropResponse(), times=1)
    with semel.Producer(faulty.bootstrap, guarantee=Guarantee.AT_LEAST_ONCE, settings={"linger.ms": 50}) as producer:
        for payment in PAYMENTS:
            producer.send(topic, "1", key=payment)
    assert hook.fired == 1
    assert len(faulty.values(topic)) > len(PAYMENTS)
    book(faulty, topic, store, how="once")
    assert entries(store, "entries") == len(PAYMENTS)
    store.close()
