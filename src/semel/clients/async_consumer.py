"""`semel.AsyncConsumer`: the Consumer for asyncio, with the same names.

    async with semel.AsyncConsumer("localhost:9092", ["orders"], group="g", guarantee="at_least_once") as consumer:
        async for batch in consumer.batches():
            await bill(batch)

What blocks runs in one thread of the consumer's own, in short turns, so that a cancelled task leaves nothing behind
that waits for ever. A batch that was under way when the task was cancelled is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from semel.clients.consumer import RECORDS_MAX, WAIT_MS_MAX, Consumer
from semel.clients.records import Batch, Record, TopicPartition
from semel.clients.settings import Value
from semel.clients.steps import OnStep, ignore_step
from semel.clients.stores import Store
from semel.errors import ConfigError
from semel.guarantee import Guarantee

TURN_MS = 200
T = TypeVar("T")


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
        self._work = ThreadPoolExecutor(1, "semel-consumer")

    @property
    def inner(self) -> Consumer:
        """The consumer that does the work."""
        if self._inner is None:
            raise ConfigError("the consumer is not open", you_want="async with semel.AsyncConsumer(…) as consumer: …")
        return self._inner

    async def _blocking(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._work, call, *arguments)

    async def batches(
        self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None
    ) -> AsyncIterator[Batch]:
        """As `Consumer.batches`."""
        loop, idle_since = asyncio.get_running_loop(), None
        while True:
            batch = await self._blocking(self.inner.next_batch, records_max, TURN_MS)
            if batch is not None:
                idle_since = None
                yield batch
                self.inner.finish_batch()
                continue
            idle_since = idle_since or loop.time() - TURN_MS / 1000
            if idle_ms_max is not None and (loop.time() - idle_since) * 1000 >= idle_ms_max:
                return

    async def records(
        self, *, records_max: int = RECORDS_MAX, idle_ms_max: float | None = None
    ) -> AsyncIterator[Record]:
        """As `Consumer.records`."""
        self.inner.refuse_records()
        async for batch in self.batches(records_max=records_max, idle_ms_max=idle_ms_max):
            for record in self.inner.each_record(batch):
                yield record

    def __aiter__(self) -> AsyncIterator[Record]:
        """Records for ever, one by one."""
        return self.records()

    async def commit(self) -> None:
        """As `Consumer.commit`."""
        await self._blocking(self.inner.commit)

    @property
    def commits_refused(self) -> int:
        """As `Consumer.commits_refused`."""
        return self.inner.commits_refused

    async def assignment(self) -> frozenset[TopicPartition]:
        """As `Consumer.assignment`, which may have to wait for its turn."""
        return await self._blocking(lambda: self.inner.assignment)

    async def close(self) -> None:
        """As `Consumer.close`."""
        if self._inner is not None:
            await self._blocking(self._inner.close)
        self._work.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        """Join the group."""
        self._inner = await self._blocking(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group."""
        await self.close()
