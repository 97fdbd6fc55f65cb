"""One partition's replica on one broker: its log, its role, and who waits for what.

A leader appends, counts what its followers have, and answers readers below the high watermark. A follower copies.

Keeps: B6 with flush policy `every`, nothing is acknowledged before it is on the disk; R8 with acks=all nothing before
       it is below the high watermark; R9 a replica that does not lead appends nothing for anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from semel.broker.log.config import FlushPolicy, LogConfig
from semel.broker.log.partition_log import PartitionLog
from semel.broker.log.producer_state import Verification
from semel.broker.log.types import AppendRefused, AppendResult, FlushWork, Origin
from semel.broker.metadata.cluster_state import PartitionState
from semel.broker.replication.followers import Eligible, IsrProposal, Leadership
from semel.protocol.error_codes import ErrorCode
from semel.world.world import World

READ_COMMITTED = 1


class Waiter:
    """A fetch that waits until one of its partitions has something new for it."""

    __slots__ = ("_future", "_watched")

    def __init__(self, partitions: Iterable[Partition], *, is_follower: bool = False) -> None:
        """Watch these partitions from now on: followers for what is appended, others for what becomes readable."""
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched = [partition.followers_waiting if is_follower else partition.waiters for partition in partitions]
        for waiters in self._watched:
            waiters[self] = None

    def wake(self) -> None:
        """Something is new."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, world: World, wait_ms: float) -> None:
        """Wait until woken or for this long."""
        timer = world.clock.call_later_ms(wait_ms, self.wake)
        try:
            await self._future
        finally:
            timer.cancel()
            for waiters in self._watched:
                waiters.pop(self, None)


class Partition:
    """One replica of a partition: its log, its role as leader or follower, and the requests that wait for it."""

    def __init__(
        self, *, topic: str, topic_id: UUID, index: int, state: PartitionState, log: PartitionLog, world: World
    ) -> None:
        """A replica without a role yet; see `lead` and `follow`."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.state = state
        self.log = log
        self.leadership: Leadership | None = None
        # Dicts serve as ordered sets: who is woken first must be the same in every run of one seed.
        self.waiters: dict[Waiter, None] = {}
        self.followers_waiting: dict[Waiter, None] = {}
        self.on_proposal: Callable[[Partition, IsrProposal], None] | None = None
        self.on_settled: Callable[[], None] | None = None
        self._unreplicated: dict[asyncio.Future[ErrorCode], int] = {}  # who waits for which high watermark
        self._world = world
        self._flushing: asyncio.Future[None] | None = None
        # What was read back at opening has survived a stop or a crash already.
        self._durable_to = log.log_end_offset

    @classmethod
    def open(
        cls,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        state: PartitionState,
        folder: Path,
        config: LogConfig,
        clean: bool,
        world: World,
    ) -> Partition:
        """Open the log in its folder, or create it."""
        log = PartitionLog.open(world.disk, folder, config, now_ms=world.clock.wall_ms(), clean=clean)
        return cls(topic=topic, topic_id=topic_id, index=index, state=state, log=log, world=world)

    @property
    def name(self) -> str:
        """Topic and index, as Kafka writes it."""
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the state this replica follows."""
        return self.state.leader_epoch

    # --- roles

    def lead(self, state: PartitionState, broker_id: int, *, lag_ms_max: float, eligible: Eligible) -> None:
        """Lead under the leader epoch of this state, or go on leading with other in-sync replicas."""
        before, self.state = self.state, state
        now_ms = self._world.clock.monotonic_ms()
        if self.leadership is not None and before.leader_epoch == state.leader_epoch:
            # The same leader epoch with other in-sync replicas: those who wait for acks=all go on waiting.
            self.leadership.change_state(state, now_ms)
        else:
            self._step_down()
            self.log.assign_leader_epoch(state.leader_epoch)
            self.leadership = Leadership(
                broker_id,
                state,
                log_end_offset=self.log.log_end_offset,
                lag_ms_max=lag_ms_max,
                now_ms=now_ms,
                eligible=eligible,
            )
            # As a follower this broker may hold more than it has synced. The high watermark waits for the sync.
            if self.log.config.flush_policy is FlushPolicy.EVERY and self._durable_to < self.log.log_end_offset:
                self._begin_flush()
        self._advance()

    def follow(self, state: PartitionState) -> None:
        """Follow: stop leading, if this replica led."""
        self.state = state
        if self.leadership is not None:
            self._step_down()

    def _step_down(self) -> None:
        """Stop leading; requests that wait for this leader epoch are answered NOT_LEADER_OR_FOLLOWER."""
        self.leadership = None
        for waiting in tuple(self._unreplicated):
            _settle(waiting, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        _wake(self.waiters)
        _wake(self.followers_waiting)

    @property
    def is_settled(self) -> bool:
        """Whether everything that was here when this leader epoch began is on all in-sync replicas."""
        return self.leadership is not None and self.log.high_watermark >= self.leadership.start_offset

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Compare the leader epoch a client believes in with ours."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        # The client has heard of a newer leader than we have: our own news is still on its way.
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # --- appending

    def append(
        self,
        record_set: memoryview,
        *,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 0,
        newest_ms: int | None = None,
    ) -> AppendResult:
        """Append a record set and show it to everybody who waits; AppendRefused leaves everything as it was."""
        if self.leadership is None:
            raise AppendRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.name}")
        result = self.log.append_as_leader(
            record_set,
            leader_epoch=self.leader_epoch,
            now_ms=self._world.clock.wall_ms(),
            origin=origin,
            verification=verification,
            transaction_version=transaction_version,
            newest_ms=newest_ms,
        )
        self._advance()
        # Followers are served up to the log end, readers up to the
        # high watermark, which `_advance` has raised if it could.
        if self.followers_waiting:
            _wake(self.followers_waiting)
        return result

    def check_insync(self) -> None:
        """Refuse acks=all while too few replicas are in sync."""
        insync_min = self.log.config.insync_replicas_min
        # Before the append: nothing is written, so the producer may send it again without a duplicate. `_fate` has the
        # answer for a set that shrinks afterwards.
        if insync_min > 1 and self.leadership is not None and self.leadership.is_under_min(insync_min):
            raise AppendRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.state.isr)} replicas of {self.name} are in sync, {insync_min} are needed",
            )

    def _advance(self) -> None:
        """Raise the high watermark as far as the followers allow, and wake readers and writers that wait for it."""
        leadership, log = self.leadership, self.log
        assert leadership is not None, "only a leader moves its high watermark"
        if leadership.is_alone:
            offset = log.log_end_offset
        else:
            now_ms = self._world.clock.monotonic_ms()
            offset = leadership.high_watermark(log.log_end_offset, log.config.insync_replicas_min, now_ms)
        if log.config.flush_policy is FlushPolicy.EVERY:
            offset = min(offset, self._durable_to)  # what a reader has seen must not be gone after a crash
        # Never back within a leader epoch, even if a follower has restarted with less.
        if offset > log.high_watermark:
            log.advance_high_watermark(offset)
            _wake(self.waiters)
            for waiting, offset_next in tuple(self._unreplicated.items()):
                if offset_next <= offset:
                    _settle(waiting, self._fate())
        if self.on_settled is not None and self.is_settled:
            settled, self.on_settled = self.on_settled, None
            settled()

    def _fate(self) -> ErrorCode:
        """The answer to acks=all for records below the high watermark."""
        leadership = self.leadership
        assert leadership is not None
        insync_min = leadership.insync_min(self.log.config.insync_replicas_min)
        # The set may have shrunk since the append. The records are
        # in the log, but on fewer replicas than were asked for.
        is_enough = len(leadership.maximal_isr) >= insync_min
        return ErrorCode.NONE if is_enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- followers

    def note_fetch(self, replica: int, broker_epoch: int, offset: int) -> ErrorCode:
        """A follower has everything below this offset."""
        leadership = self.leadership
        if leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_ms = self._world.clock.monotonic_ms()
        if not leadership.note_fetch(replica, broker_epoch, offset, self.log.log_end_offset, now_ms):
            return ErrorCode.UNKNOWN_LEADER_EPOCH  # its idea of who copies this partition is another than ours
        self._advance()
        # After `_advance`, which this fetch may have moved: a follower joins only with all that is readable (R3).
        self._propose(leadership.plan_expand(replica, self.log.high_watermark))
        return ErrorCode.NONE

    def expire_followers(self) -> None:
        """Propose to go on without those that lag."""
        leadership = self.leadership
        if leadership is not None and not leadership.is_alone:
            now_ms = self._world.clock.monotonic_ms()
            self._propose(leadership.plan_shrink(self.log.log_end_offset, now_ms))

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is not None and self.on_proposal is not None:
            self.on_proposal(self, proposal)

    def truncate_to(self, offset: int) -> None:
        """As a follower, drop what the leader does not have."""
        self.log.truncate_to(offset, now_ms=self._world.clock.wall_ms())
        self._durable_to = min(self._durable_to, self.log.log_end_offset)

    def start_at(self, offset: int) -> None:
        """As a follower, drop everything and go on where the leader's log starts."""
        self.log.start_at(offset, now_ms=self._world.clock.wall_ms())
        self._durable_to = min(self._durable_to, offset)

    def take_copy(self, record_set: memoryview, high_watermark: int, log_start_offset: int) -> None:
        """As a follower, append what the leader has, and learn what it knows."""
        log = self.log
        if len(record_set):
            log.append_as_follower(record_set, now_ms=self._world.clock.wall_ms())
        if high_watermark > log.high_watermark:
            log.advance_high_watermark(high_watermark)
        # Not beyond its own high watermark, which may lag behind the leader's; a later answer brings the rest.
        if log.log_start_offset < log_start_offset <= log.high_watermark:
            log.delete_records_before(log_start_offset)

    # --- acknowledging

    async def acknowledge(self, offset_next: int) -> None:
        """Return when everything below `offset_next` is as durable here as the flush policy promises."""
        if self.log.config.flush_policy is FlushPolicy.EVERY:
            await self.flush(offset_next)

    async def replicated(self, offset_next: int, wait_ms_max: float | None = None) -> ErrorCode:
        """Wait until everything below `offset_next` is on all in-sync replicas; the error that acks=all answers."""
        if self.leadership is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        # The usual case with one replica: the append itself has moved the high watermark.
        if self.log.high_watermark >= offset_next:
            return self._fate()
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._unreplicated[future] = offset_next
        timer = None
        if wait_ms_max is not None:
            clock = self._world.clock
            timer = clock.call_later_ms(wait_ms_max, lambda: _settle(future, ErrorCode.REQUEST_TIMED_OUT))
        try:
            return await future
        finally:
            del self._unreplicated[future]
            if timer is not None:
                timer.cancel()

    async def flush(self, offset_next: int) -> None:
        """Sync the log at least up to this offset; requests that wait together share one sync."""
        while self._durable_to < min(offset_next, self.log.log_end_offset):  # the log may be cut meanwhile
            # Many wait for one sync: one that is cancelled must not cancel it for the others.
            await asyncio.shield(self._begin_flush())

    def _begin_flush(self) -> asyncio.Future[None]:
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush())
        return self._flushing

    async def _flush(self) -> None:
        try:
            work = self.log.unflushed()
            if work is None:
                self._durable_to = self.log.log_end_offset
            else:
                await self._sync(work)
        finally:
            self._flushing = None
        if self.leadership is not None:
            self._advance()

    async def _sync(self, work: FlushWork) -> None:
        done = False
        try:
            for file in work.files:
                await self._world.disk.sync(file)
            done = True
            # After a cut other bytes may stand where the synced ones stood.
            if work.generation == self.log.generation:
                self._durable_to = max(self._durable_to, work.offset_next)
        finally:
            self.log.mark_flushed(work, done=done)

    def readable_to(self, isolation_level: int) -> int:
        """First offset that a consumer of this isolation level may not read."""
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark

    def abandon(self) -> None:
        """Let go of the files and write nothing, as a crash does."""
        self.leadership = None
        self.log.abandon()

    def retire(self) -> None:
        """Stop serving before it is deleted: waiting requests find the partition gone; `abandon` closes the files."""
        self._step_down()

    def close(self) -> None:
        """Clean stop; everybody who waits is woken and finds the partition gone."""
        self._step_down()
        self.log.close()


def _settle(waiting: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    if not waiting.done():
        waiting.set_result(code)


def _wake(waiters: dict[Waiter, None]) -> None:
    for waiter in tuple(waiters):
        waiter.wake()
