"""`semel.AsyncConsumer`: the Consumer for asyncio, with the same names.

    async with semel.AsyncConsumer("localhost:9092", ["orders"], group="g", guarantee="at_least_once") as consumer:
        async for batch in consumer.batches():
            await bill(batch)

What blocks runs in one thread of the consumer's own, in short turns, so that a cancelled task leaves nothing behind
that waits for ever. A batch that was under way when the task was cancelled is read again. A consumer that was being
opened is closed again, so that it holds no partitions.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from semel.clients.consumer import RECORDS_MAX, WAIT_MS_MAX, Consumer
from semel.clients.handing_out import note
from semel.clients.library import open_refusal
from semel.clients.records import Batch, Record
from semel.clients.settings import Value
from semel.clients.steps import OnStep, ignore_step
from semel.clients.stores import Store
from semel.clients.worker import Worker
from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.protocol.topic_partition import TopicPartition

TURN_MS = 200


class AsyncConsumer:
    """One member of a group; use it with `async with`, on one loop."""

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        *,
        group: str,
        guarantee: Guarantee | str,
        store: Store | None = None,
        settings: Mapping[str, Value] | None = None,
        wait_ms_max: int = WAIT_MS_MAX,
        keep_alive_ms: int | None = None,
        on_step: OnStep = ignore_step,
    ) -> None:
        """As `Consumer`; nothing is opened before `async with`."""
        self._open = lambda: Consumer(
            bootstrap,
            topics,
            group=group,
            guarantee=guarantee,
            store=store,
            settings=settings,
            wait_ms_max=wait_ms_max,
            keep_alive_ms=keep_alive_ms,
            on_step=on_step,
        )
        self._inner: Consumer | None = None
        self._is_open = False  # or is being opened
        self.worker = Worker("consumer")

    @property
    def inner(self) -> Consumer:
        """The consumer that does the work."""
        if self._inner is None:
            raise ConfigError("the consumer is not open", you_want="async with semel.AsyncConsumer(…) as consumer: …")
        return self._inner

    def batches(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> AsyncBatches:
        """As `Consumer.batches`."""
        return AsyncBatches(self, records_max, idle_ms_max)

    def records(self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None) -> AsyncIterator[Record]:
        """As `Consumer.records`."""
        self.inner.refuse_records()
        return AsyncRecords(self.inner, self.batches(records_max=records_max, idle_ms_max=idle_ms_max))

    def __aiter__(self) -> AsyncIterator[Record]:
        """Records for ever, one by one."""
        return self.records()

    async def commit(self) -> None:
        """As `Consumer.commit`."""
        # Asked here, in the user's own stack: the worker's thread has no exception of its own to see.
        await self.worker.run(self.inner.commit_finished, sys.exception() is not None)

    @property
    def commits_refused(self) -> int:
        """As `Consumer.commits_refused`."""
        return self.inner.commits_refused

    async def assignment(self) -> frozenset[TopicPartition]:
        """As `Consumer.assignment`, which may have to wait for its turn."""
        return await self.worker.run(lambda: self.inner.assignment)

    async def close(self) -> None:
        """As `Consumer.close`."""
        if self._inner is None or not self._is_open:
            return
        # Before the wait: a second `close`, from a `finally` or another task, must find nothing left to do.
        self._is_open = False
        worker = self.worker
        try:
            await worker.finish(self._inner.close)
        finally:
            worker.end()

    async def __aenter__(self) -> Self:
        """Join the group."""
        if self._is_open:
            raise open_refusal("consumer")
        self._is_open = True
        try:
            self.worker = self.worker.usable()
            self._inner = await self.worker.open(self._open)
        except BaseException:
            self._is_open = False
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group."""
        await self.close()


class AsyncBatches(AsyncIterator[Batch]):
    """Batches for ever, or until nothing came for a while.

    Why: a class and not a generator, for a loop that is left must be known at once. An asynchronous generator hears of
         it when the loop has time, and a `consumer.commit()` in a `finally` comes before that.
    """

    def __init__(self, consumer: AsyncConsumer, records_max: int, idle_ms_max: float | None) -> None:
        """Nothing is handed out yet."""
        self._consumer = consumer
        self._records_max, self._idle_ms_max = records_max, idle_ms_max
        self._batch: Batch | None = None
        self._is_over = False

    async def __anext__(self) -> Batch:
        """The last one is finished; wait for the next."""
        inner, loop = self._consumer.inner, asyncio.get_running_loop()
        batch, self._batch = self._batch, None
        if batch is not None:
            inner.finish_batch(batch)
        idle_since = loop.time()
        while not self._is_over:
            self._batch = await self._next(inner)
            if self._batch is not None:
                note(inner)
                return self._batch
            is_idle = self._idle_ms_max is not None and (loop.time() - idle_since) * 1000 >= self._idle_ms_max
            self._is_over = self._is_over or is_idle
        raise StopAsyncIteration

    async def _next(self, inner: Consumer) -> Batch | None:
        try:
            return await self._consumer.worker.run(inner.next_batch, self._records_max, TURN_MS)
        except asyncio.CancelledError:
            # A batch that is on its way now reaches nobody, so that no commit may count it.
            self._consumer.worker.submit(inner.leave_last)
            raise

    async def aclose(self) -> None:
        """Hand out nothing more; the batch that is in the user's hands is given up."""
        self._is_over = True
        self.leave()

    def leave(self) -> None:
        """The loop is over."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._consumer.inner.leave_batch(batch)

    def __del__(self) -> None:
        """A loop that is left by `break` or an exception lets its iterator go."""
        self.leave()


class AsyncRecords(AsyncIterator[Record]):
    """The records of batches, one by one."""

    def __init__(self, inner: Consumer, batches: AsyncBatches) -> None:
        """Nothing is handed out yet."""
        self._inner, self._batches = inner, batches
        self._records: Iterator[Record] = iter(())

    async def __anext__(self) -> Record:
        """The last one is finished; wait for the next."""
        while (record := next(self._records, None)) is None:
            self._records = self._inner.each_record(await anext(self._batches))
        return record

    async def aclose(self) -> None:
        """Hand out nothing more; the record that is in the user's hands is given up."""
        await self._batches.aclose()
