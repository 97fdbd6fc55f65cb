"""M21 Consumers whose offsets are kept by the group: static members, and records of transactions that are open.

The same with a store is in `test_m21_acts_on_stores`.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once results and offsets of a
       batch go together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from confluent_kafka import Producer

import semel
from semel.clients.producer import Transactional
from semel.clients.records import Batch
from semel.errors import BrokerError, FencedError
from semel.guarantee import Guarantee
from tests.features.clusters import WAIT_S_MAX, Kafka
from tests.features.storing import Opens, Reads, values, work, write
from tests.support.waiting import eventually

LEAST, MOST = Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
A, B = ([f"{letter}{number}" for number in range(3)] for letter in "ab")
EACH = pytest.mark.parametrize("guarantee", [LEAST, EXACTLY, MOST])


class Results:
    """What was done with batches; under exactly once that is in a topic, with the offsets."""

    def __init__(self, kafka: Kafka, topic: str, guarantee: Guarantee) -> None:
        self.kafka, self.topic, self.guarantee = kafka, topic, guarantee
        self.target = kafka.topic()
        self.producer: semel.Producer[Transactional] = semel.Producer(
            kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic, settings={"log_level": 0}
        )
        self.processed: list[str] = []

    def finish(self, batch: Batch) -> None:
        assert isinstance(batch.owner, semel.Consumer)
        if self.guarantee is EXACTLY:
            with self.producer.transaction() as tx:
                for line in values(batch):
                    tx.send(self.target, line)
                tx.commit_offsets(batch.owner)
            return
        if self.guarantee is LEAST:
            batch.owner.commit()
        self.processed += values(batch)

    def found(self) -> list[str]:
        return self.kafka.values(self.target) if self.guarantee is EXACTLY else self.processed


@pytest.fixture
def topic(embedded_kafka: Kafka) -> str:
    """Three records are in it, and a position, which at most once does not choose by itself."""
    name = embedded_kafka.topic()
    embedded_kafka.commit_start(name, name)
    write(embedded_kafka, name, A)
    return name


@pytest.fixture
def results(embedded_kafka: Kafka, topic: str, guarantee: Guarantee) -> Iterator[Results]:
    made = Results(embedded_kafka, topic, guarantee)
    with made.producer:
        yield made


@pytest.mark.quick(3)
@EACH
def test_a_static_member_goes_on_where_the_group_stands(
    embedded_kafka: Kafka, topic: str, guarantee: Guarantee, results: Results, opened: Opens
) -> None:
    for new in (A, B):
        with opened(embedded_kafka, topic, guarantee, group_instance_id="one") as consumer:
            assert work(consumer, results.finish, new[-1]) == new
        if new is A:
            write(embedded_kafka, topic, B)
    assert results.found() == A + B


def first_batch(consumer: Reads) -> Batch:
    return eventually(lambda: consumer.next_batch(len(A), 100), WAIT_S_MAX, what="a batch")


@pytest.mark.quick(2)
@pytest.mark.parametrize("guarantee", [LEAST, EXACTLY])
def test_a_static_member_whose_place_was_taken_commits_nothing_more(
    embedded_kafka: Kafka, topic: str, guarantee: Guarantee, results: Results, opened: Opens
) -> None:
    """A machine that was thought to be dead comes back, and another has started with its name."""
    with opened(embedded_kafka, topic, guarantee, group_instance_id="one") as first:
        stale = first_batch(first)
        with opened(embedded_kafka, topic, guarantee, group_instance_id="one") as second:
            assert work(second, results.finish, A[-1]) == A
            write(embedded_kafka, topic, B)
            with pytest.raises(FencedError):
                results.finish(stale)
            with pytest.raises(BrokerError):
                work(first, results.finish, B[-1])
            assert work(second, results.finish, B[-1]) == B
    assert results.found() == A + B
    assert embedded_kafka.committed(topic, topic) == len(A + B)


@pytest.mark.quick(3)
@EACH
def test_records_of_transactions_come_when_they_are_committed_and_not_before(
    embedded_kafka: Kafka, topic: str, guarantee: Guarantee, results: Results, opened: Opens
) -> None:
    producer = Producer(
        {"bootstrap.servers": embedded_kafka.bootstrap, "transactional.id": f"{topic}-writer", "log_level": 0}
    )
    producer.init_transactions(WAIT_S_MAX)

    def send(lines: list[str]) -> None:
        producer.begin_transaction()
        for line in lines:
            producer.produce(topic, line)
        assert producer.flush(WAIT_S_MAX) == 0

    send(["aborted"])
    producer.abort_transaction(WAIT_S_MAX)
    send(B)
    with opened(embedded_kafka, topic, guarantee) as consumer:
        assert work(consumer, results.finish, A[-1]) == A
        assert next(consumer.batches(idle_ms_max=100), None) is None, "nobody knows yet whether these happened"
        producer.commit_transaction(WAIT_S_MAX)
        assert work(consumer, results.finish, B[-1]) == B
    with opened(embedded_kafka, topic, guarantee) as consumer:
        assert next(consumer.batches(idle_ms_max=500), None) is None
    assert results.found() == A + B
