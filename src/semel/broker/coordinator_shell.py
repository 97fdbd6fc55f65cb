"""What group and transaction coordinators share: the shell that carries out the effects of a pure core.

It keeps the requests that wait for an answer, appends the core's records to the partition that is its memory, reports
each append in log order once it is durable, and wakes the core at its next deadline.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from semel.broker.log_types import AppendRefused, Origin
from semel.broker.partition import Partition
from semel.broker.tasks import Tasks
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, iter_headers
from semel.world.clock import Clock, Timer

LOAD_BYTES = 1 << 20

Effect = TypeVar("Effect")
Response = TypeVar("Response")


class CoordinatorShell(ABC, Generic[Effect, Response]):
    """One coordinator with the partition that is its memory."""

    def __init__(self, clock: Clock, partition: Partition, tasks: Tasks) -> None:
        """The subclass loads the core."""
        self.clock = clock
        self.partition = partition
        self.tasks = tasks
        self._token_next = 0
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._unreported: deque[tuple[Callable[[ErrorCode], list[Effect]], int]] = deque()
        self._timer: Timer | None = None

    @abstractmethod
    def carry_out(self, effect: Effect) -> Iterable[Effect]:
        """Carry out one effect; returns the effects that follow from it."""

    @abstractmethod
    def tick(self) -> list[Effect]:
        """Let the core act on its deadlines."""

    @abstractmethod
    def deadline_ms(self) -> int | None:
        """When the core wants to be woken."""

    async def ask(self, call: Callable[[int, int], list[Effect]]) -> Response:
        """Make a call with a token and the time, and wait for the answer to that token."""
        token = self._token_next
        self._token_next += 1
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            self.perform(call(token, self.clock.wall_ms()))
            return await future
        finally:
            self._waiting.pop(token, None)

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, and those that follow from them."""
        todo = deque(effects)
        while todo:
            todo.extend(self.carry_out(todo.popleft()))
        self._schedule()

    def answer(self, token: int, response: Response) -> None:
        """Hand an answer to the request that waits for it."""
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_result(response)

    def append(self, batch: bytes, report: Callable[[ErrorCode, int], list[Effect]]) -> list[Effect]:
        """Append a batch; `report` is called with the outcome, in log order, once it is durable."""
        try:
            result = self.partition.append(memoryview(bytearray(batch)), origin=Origin.COORDINATOR)
        except AppendRefused as refused:
            return report(ErrorCode(refused.code), -1)
        self._unreported.append((lambda code: report(code, result.base_offset), result.last_offset + 1))
        if len(self._unreported) == 1:
            self.tasks.start(self._report())
        return []

    async def _report(self) -> None:
        while self._unreported:
            report, offset_next = self._unreported[0]
            code = ErrorCode.NONE
            try:
                await self.partition.acknowledge(offset_next)
            except OSError:
                code = ErrorCode.KAFKA_STORAGE_ERROR
            self._unreported.popleft()
            self.perform(report(code))

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.deadline_ms()
        if deadline_ms is not None:
            self._timer = self.clock.call_later_ms(max(deadline_ms - self.clock.wall_ms(), 1), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.perform(self.tick())

    def close(self, last: Iterable[Effect]) -> None:
        """Carry out the core's last words and stop."""
        self.perform(last)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def stored_batches(partition: Partition) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Every batch of a partition, oldest first: buffer, position, header."""
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        data = partition.log.read(offset, bytes_max=LOAD_BYTES).read()
        for position, header in iter_headers(data):
            offset = header.offset_next
            yield data, position, header
