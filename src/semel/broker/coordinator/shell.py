"""What group and transaction coordinators share: the shell that carries out the effects of a pure core.

It keeps the requests that wait for an answer, appends the core's records to the partition that is its memory, reports
each append in log order once it is durable, and wakes the core at its next deadline.

Why: deadlines follow monotonic time, so that a wall clock that jumps expires nobody. After a failed sync nothing is
     known of what the disk has, so the coordinator resigns instead of going on with a memory that may be wrong.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from semel.broker.log.producer_state import Verification
from semel.broker.log.types import AppendRefused, Origin
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, iter_headers
from semel.world.clock import Clock, Timer

LOAD_BYTES = 1 << 20
# What the partition refuses, in the words of a coordinator.
_ANSWERS = MappingProxyType(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    }
)

Effect = TypeVar("Effect")
Response = TypeVar("Response")


class Unreported(NamedTuple):
    """A batch in the log that is not known to be durable yet."""

    token: int
    base_offset: int
    offset_next: int
    deadline_ms: int


class CoordinatorShell(ABC, Generic[Effect, Response]):
    """One coordinator with the partition that is its memory."""

    def __init__(self, clock: Clock, partition: Partition, tasks: Tasks, append_wait_ms_max: int) -> None:
        """The subclass loads the core."""
        self.clock = clock
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.resigned = False
        self.tasks = tasks
        self._append_wait_ms_max = append_wait_ms_max
        # Deadlines look like wall time, which is easier to read, but move with the monotonic clock.
        self._start_ms = clock.wall_ms() - clock.monotonic_ms()
        self._token_next = 0
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._unreported: deque[Unreported] = deque()
        self._reporting = False
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._append_timer: Timer | None = None

    @abstractmethod
    def carry_out(self, effect: Effect) -> Iterable[Effect]:
        """Carry out one effect; returns the effects that follow from it."""

    @abstractmethod
    def tick(self, now_ms: int) -> list[Effect]:
        """Let the core act on its deadlines."""

    @abstractmethod
    def deadline_ms(self) -> int | None:
        """When the core wants to be woken."""

    @abstractmethod
    def appended(self, token: int, code: ErrorCode, base_offset: int) -> list[Effect]:
        """Tell the core whether an append is durable or failed."""

    @abstractmethod
    def append_timed_out(self, token: int) -> list[Effect]:
        """Tell the core that an append takes too long; its fate stays open."""

    @abstractmethod
    def unload(self) -> list[Effect]:
        """Let the core answer everybody who waits, and forget everything."""

    @property
    def index(self) -> int:
        """The partition of the internal topic."""
        return self.partition.index

    def now_ms(self) -> int:
        """The time for deadlines."""
        return int(self._start_ms + self.clock.monotonic_ms())

    async def wait(self, call: Callable[[int], list[Effect]]) -> Response:
        """Make a call with a token, and wait for the answer to that token."""
        token = self._token_next
        self._token_next += 1
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            # The token waits already: the core may answer inside this call.
            self.perform(call(token))
            return await future
        finally:
            self._waiting.pop(token, None)

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, and those that follow from them."""
        # A queue and not a recursion: one answer may lead to many appends, and appends
        # must keep the order of the effects.
        todo = deque(effects)
        while todo:
            todo.extend(self.carry_out(todo.popleft()))
        self._schedule()

    def answer(self, token: int, response: Response) -> None:
        """Hand an answer to the request that waits for it."""
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_result(response)

    def append(self, token: int, batch: bytes, verification: Verification | None = None) -> list[Effect]:
        """Append a batch; `appended` is called in log order, once it is durable."""
        try:
            self._check_may_append()
            # Not yet durable: the core hears of it from `_report`, in log order.
            result = self.partition.append(
                memoryview(bytearray(batch)), origin=Origin.COORDINATOR, verification=verification
            )
        except AppendRefused as refused:
            # Nothing was written, so its fate is known at once.
            return self.appended(token, _ANSWERS.get(ErrorCode(refused.code), ErrorCode(refused.code)), -1)
        deadline_ms = self.now_ms() + self._append_wait_ms_max
        self._unreported.append(Unreported(token, result.base_offset, result.last_offset + 1, deadline_ms))
        if not self._reporting:
            self._reporting = True
            self.tasks.start(self._report())
        return []

    def _check_may_append(self) -> None:
        """Refuse to write under another leader epoch than it was loaded in, or with too few replicas in sync."""
        if self.resigned or self.partition.leader_epoch != self.leader_epoch:
            raise AppendRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition.name} has another coordinator")
        self.partition.check_insync()

    async def _report(self) -> None:
        # One task at a time: what is reported may append more, and two tasks would take each other's appends.
        # Requests whose appends take too long are answered by
        # `_watch_appends`, although the fate of the append stays open.
        self._append_timer = self.clock.call_later_ms(self._append_wait_ms_max, self._watch_appends)
        try:
            while self._unreported:
                append = self._unreported[0]
                await self.partition.acknowledge(append.offset_next)
                # Without a limit: the record is replicated, or this broker stops leading, and both are heard here.
                if await self.partition.replicated(append.offset_next) is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self.close()  # whether it is kept is for the next leader to know
                    return
                if not self._unreported:  # closed while waiting
                    return
                self._unreported.popleft()
                self.perform(self.appended(append.token, ErrorCode.NONE, append.base_offset))
        except OSError:
            self.close()
            raise
        finally:
            self._reporting = False
            self._append_timer.cancel()

    def _watch_appends(self) -> None:
        now_ms = self.now_ms()
        for append in [append for append in self._unreported if append.deadline_ms <= now_ms]:
            self.perform(self.append_timed_out(append.token))
        self._append_timer = self.clock.call_later_ms(self._append_wait_ms_max, self._watch_appends)

    def _schedule(self) -> None:
        """Set the timer; one that is due too early is left, since it looks again when it fires."""
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_at_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        self._timer = self.clock.call_later_ms(max(deadline_ms - self.now_ms(), 1), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.perform(self.tick(self.now_ms()))

    def close(self) -> None:
        """Answer everybody who waits, forget everything and stop."""
        # First of all: what is answered below may bring new calls, which must find nobody here.
        self.resigned = True
        self._unreported.clear()
        self.perform(self.unload())
        self._stop_timers()

    def abandon(self) -> None:
        """Stop and answer nobody, as a crash does."""
        self.resigned = True
        self._unreported.clear()
        self._stop_timers()

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._append_timer):
            if timer is not None:
                timer.cancel()


def stored_batches(partition: Partition) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Every batch of a partition, oldest first: buffer, position, header."""
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        data = partition.log.read(offset, bytes_max=LOAD_BYTES).read()
        for position, header in iter_headers(data):
            # The next read begins behind the last whole batch. Offsets are not counted, since compaction leaves gaps.
            offset = header.offset_next
            yield data, position, header
