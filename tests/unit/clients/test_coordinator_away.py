"""The group's coordinator cannot be found for long: whoever commits or closes is told within the limit.

Keeps: K4 an unfinished record is neither counted as done nor skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError
from semel.clients.records import Batch
from semel.errors import BrokerError, Outcome
from semel.protocol.error_codes import ErrorCode
from tests.features.clusters import SETTINGS, Kafka
from tests.support.waiting import eventually

RECORDS, HALF = 6, 3
LIMIT_MS, TRIES_MAX = 1_000, 60
IDLE_MS = 20_000
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}
TOLD = "not committed within 1 s"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield started


@pytest.fixture
def kafka(cluster: semel.Cluster) -> Iterator[Kafka]:
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


@pytest.fixture
def topic(kafka: Kafka) -> str:
    made = kafka.topic()
    kafka.fill(made, RECORDS)
    kafka.commit_start(made, made)
    return made


def send_away(cluster: semel.Cluster) -> None:
    """The library waits for a coordinator for ever then, whatever it is asked."""
    for request in ("OffsetCommit", "Heartbeat", "JoinGroup", "LeaveGroup"):
        cluster.intercept(request, AnswerError(code=ErrorCode.NOT_COORDINATOR), times=None)
    cluster.intercept("FindCoordinator", AnswerError(code=ErrorCode.COORDINATOR_NOT_AVAILABLE), times=None)


def consumer_of(kafka: Kafka, topic: str, guarantee: str) -> semel.Consumer:
    return semel.Consumer(
        kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=QUICK, wait_ms_max=LIMIT_MS
    )


def begin(consumer: semel.Consumer) -> tuple[Batch, Iterator[Batch]]:
    """The first half of the topic, when the group was joined in spite of the short limit."""

    def first() -> tuple[Batch, Iterator[Batch]] | None:
        batches = consumer.batches(records_max=HALF, idle_ms_max=IDLE_MS)
        try:
            return next(batches), batches
        except BrokerError:
            return None

    return eventually(first, 60, what="the first batch")


def offsets(batch: Batch) -> list[int]:
    return [record.offset for record in batch]


def work_off(consumer: semel.Consumer, batches: Iterator[Batch]) -> list[int]:
    """What is left, whatever is told before the coordinator is back."""
    found = list[int]()

    def is_done() -> bool:
        nonlocal batches
        try:
            found.extend(offsets(next(batches)))
            return found[-1] == RECORDS - 1
        except (BrokerError, StopIteration):
            batches = consumer.batches(records_max=HALF, idle_ms_max=IDLE_MS)
            return False

    eventually(is_done, 60, what="the last record")
    return found


def test_a_commit_is_told_to_be_unknown_and_made_when_the_coordinator_is_back(
    cluster: semel.Cluster, kafka: Kafka, topic: str
) -> None:
    with consumer_of(kafka, topic, "at_least_once") as consumer:
        _, batches = begin(consumer)
        send_away(cluster)
        for _ in range(2):
            with pytest.raises(BrokerError, match=TOLD) as caught:
                consumer.commit()
        assert caught.value.outcome is Outcome.UNKNOWN
        assert "commit again" in caught.value.next_command
        with pytest.raises(BrokerError, match=TOLD):
            next(batches)
        cluster.disarm()
        assert work_off(consumer, batches)[-HALF:] == [3, 4, 5]
    assert kafka.committed(topic, topic) >= HALF


def test_at_most_once_hands_out_nothing_and_then_each_record_once(
    cluster: semel.Cluster, kafka: Kafka, topic: str
) -> None:
    with consumer_of(kafka, topic, "at_most_once") as consumer:
        batch, batches = begin(consumer)
        found = offsets(batch)
        send_away(cluster)
        with pytest.raises(BrokerError, match=TOLD):
            next(batches)
        cluster.disarm()
        assert found + work_off(consumer, batches) == list(range(RECORDS))


@pytest.mark.quick(1)
@pytest.mark.parametrize("is_committing", [False, True], ids=["nothing asked", "a commit under way"])
def test_a_close_comes_to_its_end(
    cluster: semel.Cluster, kafka: Kafka, topic: str, caplog: pytest.LogCaptureFixture, is_committing: bool
) -> None:
    consumer = consumer_of(kafka, topic, "at_least_once")
    _, batches = begin(consumer)
    send_away(cluster)
    if is_committing:
        with pytest.raises(BrokerError, match=TOLD):
            consumer.commit()
    else:
        next(batches)
    with caplog.at_level(logging.WARNING, "semel.clients"):
        consumer.close()
    assert "the group was not left within 1 s" in caplog.text
    cluster.disarm()
    with consumer_of(kafka, topic, "at_least_once") as second:  # the first one leaves when it can
        assert len(begin(second)[0]) == HALF


async def begun(batches: AsyncIterator[Batch]) -> Batch:
    for _ in range(TRIES_MAX):
        with suppress(BrokerError):
            return await anext(batches)
    pytest.fail("no first batch")


@pytest.mark.full
def test_tasks_are_told_alike(cluster: semel.Cluster, kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee="at_least_once", settings=QUICK, wait_ms_max=LIMIT_MS
        ) as consumer:
            batches = consumer.batches(records_max=HALF)
            await begun(batches)
            await asyncio.to_thread(send_away, cluster)
            with pytest.raises(BrokerError, match=TOLD):
                await consumer.commit()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(batches), 0.01)  # a cancelled task leaves nothing behind that hangs
            with pytest.raises(BrokerError, match=TOLD):
                await anext(batches)

    asyncio.run(main())
