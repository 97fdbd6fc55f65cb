"""The clients for asyncio: the same names and the same behaviour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, Delay
from semel.clients.async_producer import AsyncDelivery, Reports
from semel.clients.producer import Plain
from semel.errors import BrokerError, ConfigError, GuaranteeError, Outcome
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode
from tests.features.clusters import SETTINGS, Kafka

LEAST, MOST = Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE
RESULT_S_MAX = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield started


@pytest.fixture
def kafka(cluster: semel.Cluster) -> Iterator[Kafka]:
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


def consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee = LEAST) -> semel.AsyncConsumer:
    return semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee)


async def offsets(consumer: semel.AsyncConsumer) -> list[int]:
    return [record.offset async for record in consumer.records(idle_ms_max=600)]


def test_sends_are_delivered_without_anybody_asking(kafka: Kafka) -> None:
    topic = kafka.topic()

    async def main() -> list[int | None]:
        async with semel.AsyncProducer(
            kafka.bootstrap, guarantee=LEAST, settings={"queue.buffering.max.messages": 50}
        ) as producer:
            sent = [await producer.send(topic, str(number)) for number in range(300)]
            return [one.offset for one in await asyncio.gather(*sent)]

    assert asyncio.run(main()) == list(range(300))
    assert kafka.values(topic) == [str(number) for number in range(300)]


def test_a_callback_that_fails_leaves_no_send_without_a_result(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    """It is called in the thread that serves the reports, which nobody else would."""
    topic, told = kafka.topic(), asyncio.Event()

    async def main() -> int | None:
        loop = asyncio.get_running_loop()

        def fail(_: str) -> None:
            if not told.is_set():
                loop.call_soon_threadsafe(told.set)
                raise ValueError("the metrics are down")

        settings = {"statistics.interval.ms": 10, "stats_cb": fail}
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST, settings=settings) as producer:
            await told.wait()
            return (await (await producer.send(topic, "x"))).offset

    assert asyncio.run(asyncio.wait_for(main(), RESULT_S_MAX)) == 0
    assert "a callback of the producer failed" in caplog.text


def test_a_failed_delivery_is_raised_where_it_is_awaited(kafka: Kafka) -> None:
    topic = kafka.topic()

    async def main() -> None:
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST) as producer:
            bad = await producer.send(topic, "x", partition=9)
            with pytest.raises(BrokerError, match="UNKNOWN_PARTITION"):
                await bad
            with pytest.raises(ConfigError):
                await producer.send(topic, 5)  # type: ignore[arg-type]

    asyncio.run(main())


@pytest.mark.quick(4)
@pytest.mark.parametrize("ending", ["flush", "close", "exit"])
@pytest.mark.parametrize("waited", ["never", "too short", "looked at"])
def test_a_failure_that_nobody_awaited_is_told_once(kafka: Kafka, waited: str, ending: str) -> None:
    topic = kafka.topic()

    async def send(producer: semel.AsyncProducer[Plain]) -> None:
        await producer.send(topic, "good")
        bad = [await producer.send(topic, "bad", partition=9) for _ in range(2)]
        if waited == "too short":
            bad[0].cancel()
        elif waited == "looked at":
            found = await asyncio.gather(*bad, return_exceptions=True)
            assert [type(one) for one in found] == [BrokerError, BrokerError]

    async def main() -> None:
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST) as producer:
            await send(producer)
            if ending == "flush":
                await producer.flush()
            elif ending == "close":
                await producer.close()

    if waited == "looked at":
        asyncio.run(main())
    else:
        with pytest.raises(BrokerError, match="UNKNOWN_PARTITION") as caught:
            asyncio.run(main())
        assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
        assert caught.value.__notes__ == ["2 records failed; this is the first that nobody had looked at"]
    assert kafka.values(topic) == ["good"]


def test_a_producer_is_opened_again_while_a_cancelled_task_closes_it(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The close goes on in its thread: it ends the producer that it began with, not the one that came after it."""
    topic, may_end, order = kafka.topic(), threading.Event(), list[str]()
    wait, own = semel.Producer.wait_for_last_reports, semel.Producer.__init__

    def wait_late(self: semel.Producer[Plain]) -> None:
        may_end.wait(30)
        order.append("closed")
        wait(self)

    def open_noted(self: semel.Producer[Plain], *arguments: Any, **named: Any) -> None:
        order.append("opened")
        own(self, *arguments, **named)

    monkeypatch.setattr(semel.Producer, "wait_for_last_reports", wait_late)
    monkeypatch.setattr(semel.Producer, "__init__", open_noted)

    async def main() -> None:
        producer = semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST)
        await producer.__aenter__()
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        opening = asyncio.create_task(producer.__aenter__())
        await asyncio.sleep(0)
        may_end.set()
        await opening
        assert (await (await producer.send(topic, "after"))).offset == 0
        await producer.close()

    asyncio.run(main())
    assert order == ["opened", "closed", "opened", "closed"]
    assert kafka.values(topic) == ["after"]


def test_failures_that_were_awaited_are_not_kept(cluster: semel.Cluster, kafka: Kafka) -> None:
    topic = kafka.topic()
    cluster.intercept("Produce", AnswerError(code=ErrorCode.INVALID_RECORD), times=None)

    async def main() -> int:
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST) as producer:
            for _ in range(15):
                bad = [await producer.send(topic, "bad") for _ in range(200)]
                await asyncio.gather(*bad, return_exceptions=True)
            return len(producer.inner.failures.unseen)

    assert asyncio.run(main()) <= 1_200


def test_a_report_that_comes_while_failures_are_looked_through_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.clients.async_producer.UNSEEN_MAX", 0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        reports = Reports(loop)
        late = failed_delivery(AsyncDelivery(loop.create_future(), reports), "late")

        class Looked(AsyncDelivery):
            @property
            def is_seen(self) -> bool:
                """At this moment the library's thread reports another failure."""
                reports.failures.unseen[late] = None
                return True

        reports.failures.unseen[failed_delivery(Looked(loop.create_future(), reports), "early")] = None
        with pytest.raises(BrokerError, match="late"):
            await reports.tell()

    asyncio.run(main())


def failed_delivery(delivery: AsyncDelivery, summary: str) -> AsyncDelivery:
    delivery.failure = BrokerError(summary, code=ErrorCode.MESSAGE_TOO_LARGE)
    return delivery


def test_consume_process_produce_exactly_once(kafka: Kafka) -> None:
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, 9)

    async def copy(producer: object, consumer: semel.AsyncConsumer, *, fails: bool) -> None:
        assert isinstance(producer, semel.AsyncProducer)
        async for batch in consumer.batches(records_max=4, idle_ms_max=600):
            async with producer.transaction() as tx:
                for value in batch.values():
                    await tx.send(target, value)
                await tx.commit_offsets(consumer)
                if fails:
                    raise ZeroDivisionError

    async def main() -> None:
        async with (
            semel.AsyncProducer(kafka.bootstrap, guarantee=Guarantee.EXACTLY_ONCE, transactional_id=topic) as producer,
            consumer_of(kafka, topic, Guarantee.EXACTLY_ONCE) as consumer,
        ):
            with pytest.raises(ZeroDivisionError):
                await copy(producer, consumer, fails=True)
            await copy(producer, consumer, fails=False)
            with pytest.raises(GuaranteeError):
                await offsets(consumer)

    asyncio.run(main())
    assert kafka.values(target) == wanted
    assert kafka.committed(topic, topic) == 9


def test_a_cancelled_task_skips_nothing(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 6)
    reached = asyncio.Event()

    async def stuck(batches: AsyncIterator[object]) -> None:
        async for _ in batches:
            reached.set()
            await asyncio.Event().wait()

    async def main() -> list[int]:
        async with consumer_of(kafka, topic) as consumer:
            task = asyncio.create_task(stuck(consumer.batches(records_max=4)))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            waiting = asyncio.create_task(offsets(consumer))
            found = await waiting
            idle = asyncio.create_task(stuck(consumer.batches()))
            done, _ = await asyncio.wait([idle], timeout=0.05)
            idle.cancel()
            assert not done
            return found

    assert asyncio.run(main()) == list(range(6))
    assert kafka.committed(topic, topic) == 6


def test_the_loop_goes_on_while_the_queue_is_full(cluster: semel.Cluster, kafka: Kafka) -> None:
    topic = kafka.topic()

    async def main() -> int:
        settings = {"queue.buffering.max.messages": 5, "linger.ms": 0}
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST, settings=settings) as producer:
            await (await producer.send(topic, "first"))
            slow = cluster.intercept("Produce", Delay(ms=60_000), times=1)

            async def send_many() -> None:
                for number in range(20):
                    await producer.send(topic, str(number))

            task = asyncio.create_task(send_many())
            done, _ = await asyncio.wait([task], timeout=0.3)
            assert not done, "the queue is full"
            await asyncio.to_thread(cluster.disarm)
            await task
            return slow.fired

    assert asyncio.run(main()) == 1
    assert len(kafka.values(topic)) == 21


def test_clients_that_are_not_open_say_so() -> None:
    async def main() -> None:
        producer = semel.AsyncProducer("b", guarantee=MOST)
        with pytest.raises(ConfigError, match="async with"):
            await producer.send("t", b"")
        await producer.close()
        consumer = semel.AsyncConsumer("b", ["t"], group="g", guarantee=MOST)
        with pytest.raises(ConfigError, match="async with"):
            await consumer.commit()
        await consumer.close()

    asyncio.run(main())
