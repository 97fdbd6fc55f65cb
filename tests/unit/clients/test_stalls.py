"""A partition that cannot be read is told again each time, with a way out that works; and a store that was set back.

Keeps: K4 an unfinished record is neither counted as done nor skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

import semel
from semel.clients.stores import Store
from semel.errors import BrokerError, FencedError, SinkError
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, Kafka
from tests.features.storing import InTasks, Reads

EXACTLY: Final = Guarantee.EXACTLY_ONCE
RECORDS, IDLE_MS = 6, 20_000
STRATEGIES = pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
BOTH = pytest.mark.parametrize("in_a_task", [False, True], ids=["threads", "tasks"])


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    made = kafka.topic()
    kafka.fill(made, RECORDS)
    return made


def consumer_of(
    kafka: Kafka, topic: str, store: Store | None = None, strategy: str = "range", *, in_a_task: bool = False
) -> Reads:
    settings = {"fetch.wait.max.ms": 20, "log_level": 0, "partition.assignment.strategy": strategy}
    guarantee = Guarantee.AT_LEAST_ONCE if store is None else EXACTLY
    if in_a_task:
        return InTasks(
            semel.AsyncConsumer(
                kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=settings, store=store
            )
        )
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=settings, store=store)


def commit(kafka: Kafka, topic: str, offset: int) -> None:
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "log_level": 0})
    member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    member.close()


def ask(store: Store, sql: str, parameters: list[object]) -> None:
    """One statement from beside the store, committed at once."""
    with closing(store.connect()) as connection:
        connection.execute(sql.replace("?", store.dialect.mark), parameters)
        connection.commit()


def set_row(store: Store, offset: int) -> None:
    ask(store, "UPDATE semel_offsets SET offset_next = ?", [offset])


def keep(store: Store, consumer: Reads, records_max: int = RECORDS) -> None:
    batches = consumer.batches(records_max=records_max, idle_ms_max=IDLE_MS)
    with store.transaction(next(batches)) as t:
        assert t.batch is not None
        for record in t.batch:
            t.execute(f"INSERT INTO results VALUES ({store.dialect.mark})", [(record.value or b"").decode()])


def results(store: Store) -> list[str]:
    with closing(store.connect()) as connection:
        return [line for (line,) in connection.execute("SELECT line FROM results").fetchall()]


@STRATEGIES
def test_a_position_that_is_gone_is_told_on_every_poll(kafka: Kafka, topic: str, strategy: str) -> None:
    commit(kafka, topic, 77)
    with consumer_of(kafka, topic, strategy=strategy) as consumer:
        for _ in range(3):
            with pytest.raises(BrokerError, match=f"{topic}-0 cannot be read") as caught:
                next(consumer.batches(idle_ms_max=IDLE_MS))
            command = f"--bootstrap-server {kafka.bootstrap} --group {topic} --topic {topic}:0 --reset-offsets"
            assert command in caught.value.next_command
    commit(kafka, topic, 0)
    with consumer_of(kafka, topic) as consumer:
        assert len(next(consumer.batches(idle_ms_max=IDLE_MS))) == RECORDS


def test_tasks_are_told_alike(kafka: Kafka, topic: str) -> None:
    commit(kafka, topic, 77)

    async def main() -> None:
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee=Guarantee.AT_LEAST_ONCE, settings={"log_level": 0}
        ) as consumer:
            for _ in range(2):
                with pytest.raises(BrokerError, match=f"{topic}-0 cannot be read"):
                    await anext(consumer.batches(idle_ms_max=IDLE_MS))

    asyncio.run(main())


@pytest.mark.quick(2)
@BOTH
def test_a_position_of_the_store_that_is_gone_is_read_again_when_it_was_set(
    kafka: Kafka, topic: str, store: Store, in_a_task: bool
) -> None:
    store.offsets(topic, [], lambda _: 0)
    ask(store, "INSERT INTO semel_offsets VALUES (?, ?, 0, 77, '', '')", [topic, topic])
    with consumer_of(kafka, topic, store, in_a_task=in_a_task) as consumer:
        for _ in range(2):
            with pytest.raises(BrokerError, match="cannot be read") as caught:
                next(consumer.batches(idle_ms_max=IDLE_MS))
        assert "store.forget(" in caught.value.next_command
        set_row(store, 2)
        keep(store, consumer)
    assert results(store) == ["2", "3", "4", "5"]


@pytest.mark.quick(2)
@pytest.mark.parametrize("set_to", [0, 4], ids=["back", "forward"])
@BOTH
def test_a_row_that_was_set_while_running_is_followed(
    kafka: Kafka, topic: str, store: Store, set_to: int, in_a_task: bool
) -> None:
    with consumer_of(kafka, topic, store, in_a_task=in_a_task) as consumer:
        keep(store, consumer, records_max=2)
        set_row(store, set_to)
        with pytest.raises(FencedError, match="not where the batch begins") as caught:
            keep(store, consumer)
        assert "where the store stands" in caught.value.next_command
        keep(store, consumer)
    assert results(store) == ["0", "1", *map(str, range(set_to, RECORDS))]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@STRATEGIES
def test_positions_that_cannot_be_read_are_asked_for_again(
    kafka: Kafka, topic: str, store: Store, tmp_path: Path, strategy: str
) -> None:
    """The store is away when the partitions come: they are ours, and nobody else reads them."""
    assert isinstance(store, semel.SqliteStore)
    with consumer_of(kafka, topic, store, strategy) as consumer:
        store._path = tmp_path / "nowhere" / "s.db"
        for _ in range(3):
            with pytest.raises(SinkError, match="cannot be"):
                next(consumer.batches(idle_ms_max=IDLE_MS))
        store._path = tmp_path / "s.db"
        keep(store, consumer)
    assert results(store) == [str(number) for number in range(RECORDS)]
