"""M22 A task is cancelled, or interrupted, at any step of consume, process, produce; the worker is started again.

Keeps: K3 a commit whose outcome is unknown is asked for again, never guessed; K4 an unfinished record is neither
       counted as done nor skipped; K6 nothing is handed out while nobody knows where the last batch's offsets are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

import semel
from semel.clients.producer import Transactional
from semel.clients.steps import ClientStep
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka

EXACTLY: Final = Guarantee.EXACTLY_ONCE
WAIT_S_MAX = 30
LAST = 9
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}


class CancelAt:
    """Cancels the task when a step is reached, while the thread that reached it waits there."""

    def __init__(self, step: ClientStep) -> None:
        self.step, self.fired = step, 0
        self.task: asyncio.Task[None] | None = None
        self.loop = asyncio.get_running_loop()

    def __call__(self, step: ClientStep) -> None:
        if step is not self.step or self.task is None:
            return
        task, self.task, self.fired = self.task, None, self.fired + 1
        felt = threading.Event()

        def cancel(turns: int = 5) -> None:
            """The task hears of it some turns of the loop later."""
            if turns == 5:
                task.cancel()
            self.loop.call_soon(cancel, turns - 1) if turns else felt.set()

        self.loop.call_soon_threadsafe(cancel)
        assert felt.wait(WAIT_S_MAX)


async def copy(
    producer: semel.AsyncProducer[Transactional], consumer: semel.AsyncConsumer, target: str, *, fails: bool = False
) -> None:
    async for batch in consumer.batches(records_max=5, idle_ms_max=20_000):
        async with producer.transaction() as tx:
            for value in batch.values():
                await tx.send(target, value)
            await tx.commit_offsets(consumer)
            if fails:
                raise ZeroDivisionError
        if batch[-1].offset == LAST:
            return


async def cancelled(task: asyncio.Task[None]) -> None:
    try:
        await task
    except (asyncio.CancelledError, ZeroDivisionError):
        return
    pytest.fail("the task came to its end")


STEPS = [
    ClientStep.POLLED,
    ClientStep.BEGUN,
    ClientStep.COMMITTING,
    ClientStep.OFFSETS_SENT,
    ClientStep.COMMITTED,
    ClientStep.ABORTED,
]


def at(steps: list[ClientStep], quick: list[ClientStep]) -> pytest.MarkDecorator:
    """Some are in the quick tier, the others in the full one alone."""
    marked = [pytest.param(step, marks=() if step in quick else pytest.mark.full) for step in steps]
    return pytest.mark.parametrize("step", marked)


@at(STEPS, quick=[ClientStep.BEGUN, ClientStep.COMMITTING])
def test_a_cancelled_worker_that_is_started_again_copies_each_record_once(kafka: Kafka, step: ClientStep) -> None:
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, LAST + 1)

    async def main() -> int:
        cancel = CancelAt(step)
        async with (
            semel.AsyncProducer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic, on_step=cancel) as producer,
            semel.AsyncConsumer(
                kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK, on_step=cancel
            ) as consumer,
        ):
            cancel.task = asyncio.create_task(copy(producer, consumer, target, fails=step is ClientStep.ABORTED))
            await cancelled(cancel.task)
            await copy(producer, consumer, target)
        return cancel.fired

    assert asyncio.run(main()) == 1
    assert kafka.values(target) == wanted
    assert kafka.committed(topic, topic) == LAST + 1


def interrupted(producer: semel.Producer[Transactional], consumer: semel.Consumer, target: str) -> None:
    for batch in consumer.batches(records_max=5, idle_ms_max=20_000):
        with producer.transaction() as tx:
            for value in batch.values():
                tx.send(target, value)
            tx.commit_offsets(consumer)
        if batch[-1].offset == LAST:
            return


@at(STEPS[1:5], quick=[ClientStep.COMMITTING])
def test_an_interrupt_leaves_a_producer_that_goes_on(kafka: Kafka, step: ClientStep) -> None:
    """Also in the moment before and after the library was called: nobody can say how that went but the library."""
    topic, target = kafka.topic(), kafka.topic()
    wanted, left = kafka.fill(topic, LAST + 1), [step]

    def interrupt(reached: ClientStep) -> None:
        if [reached] == left:
            left.clear()
            raise KeyboardInterrupt

    with (
        semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic, on_step=interrupt) as producer,
        semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK) as consumer,
    ):
        with pytest.raises(KeyboardInterrupt):
            interrupted(producer, consumer, target)
        interrupted(producer, consumer, target)
    assert kafka.values(target) == wanted
    assert kafka.committed(topic, topic) == LAST + 1


@pytest.mark.quick(1)
@pytest.mark.parametrize("call", ["begin_transaction", "commit_transaction", "abort_transaction"])
def test_an_interrupt_behind_a_call_of_the_library_is_no_doubt_for_ever(embedded_kafka: Kafka, call: str) -> None:
    kafka = embedded_kafka
    topic, target = kafka.topic(), kafka.topic()
    wanted = kafka.fill(topic, LAST + 1)
    with (
        semel.Producer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic) as producer,
        semel.Consumer(kafka.bootstrap, [topic], group=topic, guarantee=EXACTLY, settings=QUICK) as consumer,
    ):
        assert producer._coordination is not None
        producer._coordination.client = Interrupting(producer._coordination.client, call)
        if call == "abort_transaction":
            with pytest.raises(KeyboardInterrupt):
                abort(producer, target)
        else:
            with pytest.raises(KeyboardInterrupt):
                interrupted(producer, consumer, target)
        interrupted(producer, consumer, target)
    assert kafka.values(target) == wanted


async def offsets(consumer: semel.AsyncConsumer, records: int) -> list[int]:
    """The offsets of the records that come, up to a number of them."""
    found: list[int] = []
    async for record in consumer.records(idle_ms_max=20_000):
        found.append(record.offset)
        if len(found) == records:
            break
    return found


def abort(producer: semel.Producer[Transactional], target: str) -> None:
    with producer.transaction() as tx:
        tx.send(target, "aborted")
        raise ZeroDivisionError


class Interrupting:
    """The library's client; an interrupt comes when it has done one call, before anybody hears of the result."""

    def __init__(self, client: object, call: str) -> None:
        self.client, self.call = client, call

    def __getattr__(self, name: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(self.client, name)
        if name != self.call:
            return found

        def interrupted(*arguments: object) -> None:
            self.call = ""
            found(*arguments)
            raise KeyboardInterrupt

        return interrupted


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_client_whose_opening_is_cancelled_holds_nothing(embedded_kafka: Kafka, kind: str) -> None:
    """A member that nobody has would keep its partitions, and a producer its thread."""
    kafka = embedded_kafka
    topic = kafka.topic()
    kafka.fill(topic, 3)

    async def open_and_cancel(client: semel.AsyncConsumer | semel.AsyncProducer[Transactional]) -> None:
        task = asyncio.ensure_future(opened(client))
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def opened(client: semel.AsyncConsumer | semel.AsyncProducer[Transactional]) -> None:
        async with client:
            await asyncio.Event().wait()  # on a busy machine it may be open before the cancellation comes

    def consumer() -> semel.AsyncConsumer:
        return semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee=Guarantee.AT_LEAST_ONCE, settings=QUICK
        )

    async def main() -> list[int]:
        if kind == "consumer":
            first = consumer()
            await open_and_cancel(first)
            async with first:  # it can be opened again
                return await offsets(first, 3)
        producer = semel.AsyncProducer(kafka.bootstrap, guarantee=EXACTLY, transactional_id=topic)
        await open_and_cancel(producer)
        async with producer, producer.transaction() as tx:
            await tx.send(topic, "after")
        return [len(kafka.values(topic)) - 2, 1, 2]

    assert asyncio.run(main()) == ([0, 1, 2] if kind == "consumer" else [2, 1, 2])
    names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("semel-reports")}


def test_a_batch_that_was_on_its_way_to_a_cancelled_task_is_not_committed(embedded_kafka: Kafka) -> None:
    kafka = embedded_kafka
    topic = kafka.topic()
    kafka.fill(topic, 6)

    async def main() -> list[int]:
        cancel = CancelAt(ClientStep.POLLED)
        async with semel.AsyncConsumer(
            kafka.bootstrap, [topic], group=topic, guarantee="at_least_once", settings=QUICK, on_step=cancel
        ) as consumer:

            async def work() -> None:
                try:
                    async for _ in consumer.batches(records_max=4):
                        pytest.fail("it was handed out")
                finally:
                    await consumer.commit()

            cancel.task = asyncio.create_task(work())
            await cancelled(cancel.task)
            return await offsets(consumer, 6)

    assert asyncio.run(main()) == list(range(6))


def test_a_send_that_was_cancelled_while_it_waited_for_room_is_not_made(embedded_kafka: Kafka) -> None:
    kafka = embedded_kafka
    topic = kafka.topic()
    settings = {"queue.buffering.max.messages": 2, "linger.ms": 500, "log_level": 0}

    async def within(limit_s: float, work: Awaitable[object]) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, limit_s)

    async def main() -> None:
        async with semel.AsyncProducer(kafka.bootstrap, guarantee="at_least_once", settings=settings) as producer:
            for number in range(2):
                await producer.send(topic, str(number))
            await within(0.05, producer.send(topic, "cancelled"))
            await producer.send(topic, "2")

    asyncio.run(main())
    assert kafka.values(topic) == ["0", "1", "2"]
