"""What a careless program does to clients, beside leaving its loops: each act is right, or somebody is told.

Keeps: K2 a send has one outcome; K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once
       results and offsets of a batch go together.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

import semel
from semel.clients.producer import Transactional
from semel.clients.records import Batch
from semel.errors import BrokerError, ConfigError, FencedError, GuaranteeError
from semel.guarantee import Guarantee
from tests.features.clusters import SETTINGS, Kafka
from tests.support.waiting import eventually

LEAST: Final = Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
RECORDS = 5
WANTED = [str(number) for number in range(RECORDS)]
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with semel.Cluster(brokers=1, config=SETTINGS) as cluster:
        yield Kafka(name="embedded", bootstrap=cluster.bootstrap)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    made = kafka.topic()
    kafka.fill(made, RECORDS)
    return made


def consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee = LEAST) -> semel.Consumer:
    return semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=QUICK)


def task_consumer_of(kafka: Kafka, topic: str, guarantee: Guarantee = LEAST) -> semel.AsyncConsumer:
    return semel.AsyncConsumer(kafka.bootstrap, [topic], group=topic, guarantee=guarantee, settings=QUICK)


def producer_of(kafka: Kafka, topic: str) -> semel.Producer[Transactional]:
    return semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic, settings={"log_level": 0})


def task_producer_of(kafka: Kafka, topic: str, **settings: int) -> semel.AsyncProducer[Transactional]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return semel.AsyncProducer(
        kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic, settings={"log_level": 0} | given
    )


def batches_of(consumer: semel.Consumer) -> Iterator[Batch]:
    return consumer.batches(idle_ms_max=20_000)


def copy_all(kafka: Kafka, topic: str, target: str) -> None:
    """What the program should have done; nothing may be missing, and nothing there already."""
    with producer_of(kafka, topic) as producer, consumer_of(kafka, topic, EXACTLY) as consumer:
        with producer.transaction() as tx:
            batches = batches_of(consumer)
            for value in next(batches).values():
                tx.send(target, value)
            tx.commit_offsets(consumer)
        del batches
    assert kafka.values(target) == WANTED
    assert kafka.committed(topic, topic) == RECORDS


def test_a_loop_over_an_old_batch_counts_nothing_of_a_newer_one(kafka: Kafka, topic: str) -> None:
    """Two loops over records at once: the batch belongs to the second, which has finished one record of it."""
    with consumer_of(kafka, topic) as consumer:
        old, new = (consumer.records(idle_ms_max=20_000) for _ in range(2))
        assert next(old).offset == 0
        assert [next(new).offset for _ in range(2)] == [0, 1]
        assert [next(old).offset for _ in range(3)] == [1, 2, 3]
        new.close()  # type: ignore[attr-defined]
    assert kafka.committed(topic, topic) == 1


def test_of_two_tasks_one_counts_nothing_of_the_other_s_batch(kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with task_consumer_of(kafka, topic) as consumer:
            old, new = (consumer.records(idle_ms_max=20_000) for _ in range(2))
            assert (await anext(old)).offset == 0
            assert [(await anext(new)).offset for _ in range(2)] == [0, 1]
            assert [(await anext(old)).offset for _ in range(3)] == [1, 2, 3]

    asyncio.run(main())
    assert kafka.committed(topic, topic) == 1


def test_of_two_loops_at_once_the_one_that_lost_its_batch_is_told(kafka: Kafka, topic: str) -> None:
    """They would take each batch from one another, for ever."""
    with consumer_of(kafka, topic) as consumer:
        first, second = batches_of(consumer), batches_of(consumer)
        assert next(first)[0].offset == 0
        assert next(second)[0].offset == 0
        with pytest.raises(GuaranteeError, match="has taken over") as caught:
            next(first)
        assert "a consumer of their own" in caught.value.you_want
        consumer.commit()  # the second's
    assert kafka.committed(topic, topic) == RECORDS


def test_of_two_tasks_that_share_a_consumer_as_well(kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with task_consumer_of(kafka, topic) as consumer:
            first, second = (consumer.batches(records_max=2, idle_ms_max=20_000) for _ in range(2))
            for loop in (first, second):
                assert (await anext(loop))[0].offset == 0
            with pytest.raises(GuaranteeError, match="has taken over"):
                await anext(first)
            assert (await anext(second))[0].offset == 2
            await consumer.commit()

    asyncio.run(main())
    assert kafka.committed(topic, topic) == 4


def test_a_caught_error_of_commit_offsets_commits_nothing(kafka: Kafka, topic: str) -> None:
    """In a thread that has no loop, so that nobody knows of its batch in hand."""
    target = kafka.topic()

    def careless(producer: semel.Producer[Transactional], consumer: semel.Consumer, batch: Batch) -> None:
        with producer.transaction() as tx:
            for value in batch.values():
                tx.send(target, value)
            with pytest.raises(FencedError):
                tx.commit_offsets(consumer)

    with producer_of(kafka, topic) as producer, consumer_of(kafka, topic, EXACTLY) as consumer:
        batches = batches_of(consumer)
        batch = next(batches)
        consumer._member.progress.revoke(list(batch.offsets))
        with (
            ThreadPoolExecutor(1) as thread,
            pytest.raises(GuaranteeError, match="failed and its error was caught"),
        ):
            thread.submit(careless, producer, consumer, batch).result()
        del batches
    assert kafka.values(target) == []
    copy_all(kafka, topic, target)


def test_a_task_s_caught_error_of_commit_offsets_as_well(kafka: Kafka, topic: str) -> None:
    target = kafka.topic()

    async def first(consumer: semel.AsyncConsumer) -> Batch:
        return await anext(consumer.batches(idle_ms_max=20_000))

    async def careless(producer: semel.AsyncProducer[Transactional], consumer: semel.AsyncConsumer) -> None:
        async with producer.transaction() as tx:
            await tx.send(target, "lost")
            with pytest.raises(FencedError):
                await tx.commit_offsets(consumer)

    async def main() -> None:
        async with task_producer_of(kafka, topic) as producer, task_consumer_of(kafka, topic, EXACTLY) as consumer:
            batch = await asyncio.create_task(first(consumer))  # another task's: nobody knows that it is in hand here
            consumer.inner._member.progress.revoke(list(batch.offsets))
            with pytest.raises(GuaranteeError, match="failed and its error was caught"):
                await careless(producer, consumer)

    asyncio.run(main())
    assert kafka.values(target) == []
    copy_all(kafka, topic, target)


def test_offsets_of_a_transaction_twice_late_or_without_a_batch(kafka: Kafka, topic: str) -> None:
    target = kafka.topic()

    def keep(*values: bytes | str | None) -> None:
        with producer.transaction() as tx:
            tx.commit_offsets(consumer)
            for value in values:
                tx.send(target, value)
            tx.commit_offsets(consumer)

    with producer_of(kafka, topic) as producer, consumer_of(kafka, topic, EXACTLY) as consumer:
        with pytest.raises(GuaranteeError, match="without a batch"):
            keep("none")
        batches = batches_of(consumer)
        keep(*next(batches).values())
        with pytest.raises(GuaranteeError, match="has committed already"):
            keep("twice")
        assert next(consumer.batches(idle_ms_max=300), None) is None
    assert (kafka.values(target), kafka.committed(topic, topic)) == (WANTED, RECORDS)


def test_a_transaction_that_two_threads_want_is_one_s_alone(kafka: Kafka, topic: str) -> None:
    """The second is refused, and what it sends into the first one's goes with that or is refused."""
    target = kafka.topic()

    def begin() -> None:
        with producer.transaction() as second:
            second.send(target, "of another thread")

    with producer_of(kafka, topic) as producer, ThreadPoolExecutor(1) as thread:
        with producer.transaction() as tx:
            tx.send(target, "0")
            with pytest.raises(ConfigError, match="already open"):
                thread.submit(begin).result()
            thread.submit(tx.send, target, "1").result()
        with pytest.raises(ConfigError, match="the transaction is over"):
            thread.submit(tx.send, target, "late").result()
    assert kafka.values(target) == ["0", "1"]


def test_a_task_s_transaction_inside_another_is_refused(kafka: Kafka, topic: str) -> None:
    target = kafka.topic()

    async def main() -> None:
        async with task_producer_of(kafka, topic) as producer, producer.transaction() as tx:
            await tx.send(target, "0")
            with pytest.raises(ConfigError, match="already open"):
                async with producer.transaction() as inner:
                    await inner.send(target, "inner")

    asyncio.run(main())
    assert kafka.values(target) == ["0"]


def test_clients_that_are_closed_inside_a_batch(kafka: Kafka, topic: str) -> None:
    """The batch is given up, and the transaction that is open comes to its end."""
    target = kafka.topic()
    with consumer_of(kafka, topic) as consumer:
        batches = batches_of(consumer)
        next(batches)
        consumer.close()
        for use in (lambda: next(batches), consumer.commit):
            with pytest.raises(ConfigError, match="consumer is closed"):
                use()
    assert kafka.committed(topic, topic) < 0
    producer = producer_of(kafka, topic)
    with producer.transaction() as tx:
        tx.send(target, "0")
        producer.close()
        tx.send(target, "1")
    with pytest.raises(ConfigError, match="producer is closed"):
        producer.transaction()
    assert kafka.values(target) == ["0", "1"]


def test_a_task_s_clients_that_are_closed_inside_a_batch(kafka: Kafka, topic: str) -> None:
    target = kafka.topic()

    async def copy(producer: semel.AsyncProducer[Transactional]) -> None:
        async with producer.transaction() as tx:
            await tx.send(target, "0")
            await producer.close()

    async def main() -> None:
        async with task_consumer_of(kafka, topic) as consumer:
            batches = consumer.batches(idle_ms_max=20_000)
            await anext(batches)
            await consumer.close()
            with pytest.raises(ConfigError, match="consumer is closed"):
                await anext(batches)
            with pytest.raises(ConfigError, match="consumer is closed"):
                await consumer.commit()
        async with task_producer_of(kafka, topic) as producer:
            with pytest.raises(ConfigError, match="producer is closed"):
                await copy(producer)

    asyncio.run(main())
    assert kafka.committed(topic, topic) < 0
    assert kafka.values(target) == [], "what was open is aborted by the next owner"


def test_sends_of_a_transaction_that_nobody_awaited_commit_nothing(kafka: Kafka, topic: str) -> None:
    target, forgotten = kafka.topic(), list[Coroutine[Any, Any, None]]()

    async def main() -> None:
        async with task_producer_of(kafka, topic) as producer, task_consumer_of(kafka, topic, EXACTLY) as consumer:
            async for batch in consumer.batches(idle_ms_max=20_000):
                async with producer.transaction() as tx:
                    forgotten.extend(tx.send(target, value) for value in batch.values())
                    await tx.commit_offsets(consumer)
                break

    try:
        with pytest.raises(
            ConfigError, match=f"nobody awaited: {RECORDS}; the transaction was not committed"
        ) as caught:
            asyncio.run(main())
    finally:
        for one in forgotten:
            one.close()
    assert "await asyncio.gather" in caught.value.you_want
    assert kafka.values(target) == []
    copy_all(kafka, topic, target)


def test_a_send_that_waits_for_room_when_its_transaction_ends_commits_nothing(kafka: Kafka, topic: str) -> None:
    """It was begun in a task of its own; what is committed without it would be missing a record."""
    target, late = kafka.topic(), list[asyncio.Task[None]]()

    async def careless(producer: semel.AsyncProducer[Transactional]) -> None:
        async with producer.transaction() as tx:
            await tx.send(target, "0")
            late.append(asyncio.create_task(tx.send(target, "1")))
            await asyncio.sleep(0)

    async def main() -> None:
        async with task_producer_of(kafka, topic, queue_buffering_max_messages=1, linger_ms=10_000) as producer:
            with pytest.raises(ConfigError, match="nobody awaited: 1; the transaction was not committed"):
                await careless(producer)
            with pytest.raises(ConfigError, match="the transaction is over"):
                await late[0]

    asyncio.run(main())
    assert kafka.values(target) == []


def test_sends_that_nobody_awaited_are_told_by_close(kafka: Kafka) -> None:
    target = kafka.topic()

    async def main(failing: type[Exception] | None) -> None:
        async with semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST) as producer:
            await producer.send(target, "0")
            producer.send(target, "1").close()
            if failing is not None:
                raise failing

    with pytest.raises(ConfigError, match="nobody awaited: 1; their records were not sent"):
        asyncio.run(main(None))
    with pytest.raises(ZeroDivisionError):  # which is what there is to tell
        asyncio.run(main(ZeroDivisionError))
    assert kafka.values(target) == ["0", "0"]


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_client_is_opened_once(kafka: Kafka, topic: str, kind: str) -> None:
    """The first opening would be forgotten: a member that keeps its partitions, failures that nobody tells."""
    client: semel.AsyncConsumer | semel.AsyncProducer[Transactional] = task_producer_of(kafka, topic)
    if kind == "consumer":
        client = task_consumer_of(kafka, topic)

    async def nested() -> None:
        async with client:
            with pytest.raises(ConfigError, match=f"this {kind} is open already"):
                async with client:
                    pytest.fail("it was opened twice")
            await is_whole()

    async def is_whole() -> None:
        if isinstance(client, semel.AsyncConsumer):
            assert (await anext(client.batches(idle_ms_max=20_000)))[0].offset == 0
        else:
            async with client.transaction() as tx:
                await tx.send(topic, "more")

    async def at_once() -> None:
        made = await asyncio.gather(client.__aenter__(), client.__aenter__(), return_exceptions=True)
        assert [type(one) for one in made] == [type(client), ConfigError]
        await is_whole()
        await client.close()

    asyncio.run(nested())
    asyncio.run(at_once())  # and again, when it was closed
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("semel-reports")]


def test_a_producer_of_another_loop_says_so_and_tells_its_failures(kafka: Kafka) -> None:
    """Its reports go to the loop that it was opened on: whoever waited for one on another was never woken."""
    target = kafka.topic()
    producer = semel.AsyncProducer(kafka.bootstrap, guarantee=LEAST, settings={"log_level": 0})

    async def first() -> None:
        await producer.__aenter__()
        await producer.send(target, "bad", partition=9)
        await (await producer.send(target, "0"))

    async def refused() -> None:
        with pytest.raises(ConfigError, match="opened on another loop") as caught:
            await producer.send(target, "1")
        assert "one asyncio.run" in caught.value.you_want

    asyncio.run(first())
    asyncio.run(refused())
    with pytest.raises(BrokerError, match="UNKNOWN_PARTITION"):
        asyncio.run(producer.flush())
    asyncio.run(producer.close())
    assert kafka.values(target) == ["0"]


def test_a_generator_over_a_batch_in_another_thread(kafka: Kafka, topic: str) -> None:
    """The transaction ends before the other thread has read the batch to its end: that is no finished batch."""
    target, may_go_on = kafka.topic(), threading.Event()

    def send_slowly(send: Callable[[str], object], values: Iterator[str]) -> None:
        for value in values:
            send(value)
            may_go_on.wait(30)

    def careless(producer: semel.Producer[Transactional], consumer: semel.Consumer, batch: Batch) -> None:
        with producer.transaction() as tx:
            values = ((record.value or b"").decode() for record in batch)
            thread.submit(send_slowly, lambda value: tx.send(target, value), values)
            tx.commit_offsets(consumer)
            eventually(producer._client.__len__, 30, what="it has sent one")

    with (
        producer_of(kafka, topic) as producer,
        consumer_of(kafka, topic, EXACTLY) as consumer,
        ThreadPoolExecutor(1) as thread,
    ):
        batches = batches_of(consumer)
        with pytest.raises(GuaranteeError, match=f"left at record 1 of {RECORDS}"):
            careless(producer, consumer, next(batches))
        may_go_on.set()
        del batches
    assert kafka.values(target) == []
    copy_all(kafka, topic, target)
