"""M22 A task is cancelled wherever it waits: at its first await, at its second, and so on to its last.

Keeps: K4 an unfinished record is neither counted as done nor skipped; K6 under exactly once results and offsets of a
       batch go together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from typing import Any, Final

import pytest

import semel
from semel.clients.producer import Plain, Transactional
from semel.clients.stores import Store
from semel.guarantee import Guarantee
from tests.features.clusters import Kafka
from tests.features.storing import kept

LEAST: Final = Guarantee.AT_LEAST_ONCE
EXACTLY: Final = Guarantee.EXACTLY_ONCE
RECORDS, AWAITS_MAX, TRIES_MAX = 3, 80, 100
IDLE_MS_MAX, TURNS = 50, (5, 0)
QUICK = {"fetch.wait.max.ms": 20, "log_level": 0}


def _soon(call: Callable[[], object], turns: int) -> None:
    """Some turns of the loop later: what is waited for may have begun in its thread by then."""
    asyncio.get_running_loop().call_soon(*((_soon, call, turns - 1) if turns else (call,)))


class CancelledAt(Awaitable[None]):
    """Work whose task is cancelled when it waits for the nth time, or some turns of the loop later."""

    def __init__(self, work: Coroutine[Any, Any, None], number: int, turns: int) -> None:
        self.work, self.number, self.turns = work, number, turns

    def __await__(self) -> Generator[Any, None, None]:
        task, steps = asyncio.current_task(), self.work.__await__()
        assert task is not None
        go_on: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                waits_for = go_on()
            except StopIteration:
                return
            if self.number == 0:
                _soon(task.cancel, self.turns)
            self.number -= 1
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - the work's to handle
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, None)


async def is_cancelled(work: Coroutine[Any, Any, None], number: int, turns: int) -> bool:
    """Whether it was cancelled before it came to its end."""

    async def run() -> None:
        await CancelledAt(work, number, turns)

    task = asyncio.create_task(run())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled()


class Copying:
    """Copies a topic, and commits as its guarantee says."""

    def __init__(self, kafka: Kafka, guarantee: Guarantee, store: Store | None = None) -> None:
        self.kafka, self.topic, self.target, self.written = kafka, kafka.topic(), kafka.topic(), 0
        self.store = store
        self.consumer = semel.AsyncConsumer(
            kafka.bootstrap, [self.topic], group=self.topic, guarantee=guarantee, settings=QUICK, store=store
        )
        self.transactional: semel.AsyncProducer[Transactional] | None = None
        self.plain: semel.AsyncProducer[Plain] | None = None
        if guarantee is EXACTLY and store is None:
            self.transactional = semel.AsyncProducer(
                kafka.bootstrap,
                guarantee=EXACTLY,
                transactional_id=self.topic,
                settings={"linger.ms": 0, "log_level": 0},
            )
        elif store is None:
            self.plain = semel.AsyncProducer(
                kafka.bootstrap, guarantee=guarantee, settings={"linger.ms": 0, "log_level": 0}
            )

    async def open(self, stack: AsyncExitStack) -> None:
        for client in (self.transactional, self.plain, self.consumer):
            if client is not None:
                await stack.enter_async_context(client)

    async def copy(self, idle_ms_max: int) -> None:
        async for batch in self.consumer.batches(idle_ms_max=idle_ms_max):
            if self.transactional is not None:
                async with self.transactional.transaction() as tx:
                    for value in batch.values():
                        await tx.send(self.target, value)
                    await tx.commit_offsets(self.consumer)
            elif self.store is not None:
                with self.store.transaction(batch) as t:
                    for value in batch.values():
                        t.execute(f"INSERT INTO lines VALUES ({self.store.dialect.mark})", [(value or b"").decode()])
                        await asyncio.sleep(0)
            elif self.plain is not None:
                for value in batch.values():
                    await self.plain.send(self.target, value)
                await self.plain.flush()
                await self.consumer.commit()
            if batch[-1].offset == self.written - 1:
                return

    async def open_and_copy(self, idle_ms_max: int) -> None:
        async with AsyncExitStack() as stack:
            await self.open(stack)
            await self.copy(idle_ms_max)

    async def cancel_everywhere(self, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Until it comes to its end before it has waited that often; each time it is started again and goes on."""
        for number, turns in product(range(AWAITS_MAX), TURNS):
            await asyncio.to_thread(self.kafka.fill, self.topic, RECORDS)
            self.written += RECORDS
            if not await is_cancelled(work(20_000), number, turns):
                if turns == 0:
                    return
                continue  # it was done before the cancellation came
            for _ in range(TRIES_MAX):
                await work(IDLE_MS_MAX)  # at once, while a commit may be under way still; then there is nothing to read
                if await asyncio.to_thread(self.standing) == self.written:
                    break
            else:
                raise AssertionError(f"cancelled at await {number} it does not go on")
        raise AssertionError("it does not come to its end")

    def standing(self) -> int:
        """Where the offsets are."""
        if self.store is None:
            return self.kafka.committed(self.topic, self.topic)
        select = "SELECT offset_next FROM semel_offsets WHERE group_id = ?"
        return next((int(offset) for (offset,) in self.store.ask(select, [self.topic])), 0)

    def judge(self) -> None:
        rounds = self.written // RECORDS
        found = self.kafka.counts(self.target) if self.store is None else Counter(kept(self.store))
        assert rounds > 3, "it was cancelled at some awaits"
        wanted = {str(number): rounds for number in range(RECORDS)}
        if self.transactional is not None or self.store is not None:
            assert dict(found) == wanted
        else:
            assert all(found[value] >= times for value, times in wanted.items()), "something was lost"


@pytest.mark.parametrize("guarantee", [EXACTLY, pytest.param(LEAST, marks=pytest.mark.full)])
def test_a_worker_that_is_cancelled_at_any_await_goes_on(kafka: Kafka, guarantee: Guarantee) -> None:
    copying = Copying(kafka, guarantee)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            await copying.open(stack)
            await copying.copy(IDLE_MS_MAX)  # the group is joined
            await copying.cancel_everywhere(copying.copy)

    asyncio.run(main())
    copying.judge()


@pytest.mark.full
def test_a_worker_with_a_store_that_is_cancelled_at_any_await_goes_on(embedded_kafka: Kafka, store: Store) -> None:
    copying = Copying(embedded_kafka, EXACTLY, store)

    async def main() -> None:
        async with copying.consumer:
            await copying.copy(IDLE_MS_MAX)
            await copying.cancel_everywhere(copying.copy)

    asyncio.run(main())
    copying.judge()


@pytest.mark.full
@pytest.mark.parametrize("guarantee", [EXACTLY, LEAST])
def test_also_while_its_clients_are_opened_and_closed(embedded_kafka: Kafka, guarantee: Guarantee) -> None:
    copying = Copying(embedded_kafka, guarantee)
    asyncio.run(copying.cancel_everywhere(copying.open_and_copy))
    copying.judge()
