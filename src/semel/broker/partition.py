"""One partition on the broker that leads it: appends, durability, and who waits for new records.

Keeps: B6 with flush policy `every`, nothing is acknowledged before it is on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from semel.broker.cluster_state import PartitionState
from semel.broker.log import PartitionLog
from semel.broker.log_config import FlushPolicy, LogConfig
from semel.broker.log_types import AppendRefused, AppendResult, Origin
from semel.broker.producer_state import Verification
from semel.protocol.error_codes import ErrorCode
from semel.world.world import World

READ_COMMITTED = 1


class Waiter:
    """A fetch that waits until one of its partitions has something new."""

    __slots__ = ("_future", "_partitions")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """Watch these partitions from now on."""
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partitions = tuple(partitions)
        for partition in self._partitions:
            partition.waiters[self] = None

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
            for partition in self._partitions:
                partition.waiters.pop(self, None)


class Partition:
    """A partition's log with its place in the cluster."""

    def __init__(
        self, *, topic: str, topic_id: UUID, index: int, place: PartitionState, log: PartitionLog, world: World
    ) -> None:
        """Lead this partition."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.place = place
        self.log = log
        self.waiters: dict[Waiter, None] = {}
        self._world = world
        self._flushing: asyncio.Future[None] | None = None
        self._durable_to = log.log_end_offset
        log.advance_high_watermark(log.log_end_offset)

    @classmethod
    def open(
        cls,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        place: PartitionState,
        folder: Path,
        config: LogConfig,
        clean: bool,
        world: World,
    ) -> Partition:
        """Open the log in its folder, or create it."""
        log = PartitionLog.open(world.disk, folder, config, now_ms=world.clock.wall_ms(), clean=clean)
        return cls(topic=topic, topic_id=topic_id, index=index, place=place, log=log, world=world)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch under which this broker leads."""
        return self.place.leader_epoch

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Compare the leader epoch a client believes in with ours."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(
        self,
        record_set: memoryview,
        *,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append a record set and show it to whoever waits; AppendRefused leaves everything as it was."""
        result = self.log.append_as_leader(
            record_set,
            leader_epoch=self.leader_epoch,
            now_ms=self._world.clock.wall_ms(),
            origin=origin,
            verification=verification,
            transaction_version=transaction_version,
        )
        self.log.advance_high_watermark(self.log.log_end_offset)
        for waiter in tuple(self.waiters):
            waiter.wake()
        return result

    @property
    def name(self) -> str:
        """Topic and index, as Kafka writes it."""
        return f"{self.topic}-{self.index}"

    def check_insync(self) -> None:
        """Refuse acks=all while too few replicas are in sync."""
        insync_min = self.log.config.insync_replicas_min
        if len(self.place.isr) < insync_min:
            raise AppendRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.place.isr)} replicas of {self.name} are in sync, {insync_min} are needed",
            )

    async def acknowledge(self, offset_next: int) -> None:
        """Return when everything below `offset_next` is as durable as the flush policy promises."""
        if self.log.config.flush_policy is FlushPolicy.EVERY:
            await self.flush(offset_next)

    async def flush(self, offset_next: int) -> None:
        """Sync the log at least up to this offset; requests that wait together share one sync."""
        while self._durable_to < offset_next:
            if self._flushing is None:
                self._flushing = asyncio.ensure_future(self._flush())
            await asyncio.shield(self._flushing)

    async def _flush(self) -> None:
        try:
            work = self.log.unflushed()
            if work is None:
                self._durable_to = self.log.log_end_offset
                return
            done = False
            try:
                for file in work.files:
                    await self._world.disk.sync(file)
                done = True
                self._durable_to = max(self._durable_to, work.offset_next)
            finally:
                self.log.mark_flushed(work, done=done)
        finally:
            self._flushing = None

    def readable_to(self, isolation_level: int) -> int:
        """First offset that a consumer of this isolation level may not read."""
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark

    def abandon(self) -> None:
        """Let go of the files and write nothing, as a crash does."""
        self.log.abandon()

    def close(self) -> None:
        """Clean stop; whoever waits is woken and finds the partition gone."""
        for waiter in tuple(self.waiters):
            waiter.wake()
        self.log.close()
