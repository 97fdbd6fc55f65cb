"""A follower copies: one loop for each leader that this broker follows, asking for all its partitions at once.

Each partition's request carries the leader epoch of the follower's last record. A leader whose log parts from the
follower's there says where (the diverging epoch), and the follower cuts its log before it copies on.

Keeps: R10 a follower's log is a prefix of its leader's, as far as both know the epochs it was written in; what it holds
       beyond that was never acknowledged by all in-sync replicas and goes.
Why:   an answer is taken only by the loop that asked for it; a change of leader or leader epoch ends the loop first.
Sources: KIP-101, KIP-279, KIP-320, KIP-595 (truncation by the diverging epoch of a Fetch), KIP-903.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from semel.broker.log.config import FlushPolicy
from semel.broker.log.types import AppendRefused, LogSlice
from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.replication.partition import Partition
from semel.errors import ConnectionFailure, EnvironmentFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

log = logging.getLogger("semel.broker")

# With topic ids (13), the follower's broker epoch (15) and, since 12, the diverging epoch in answers.
FETCH_VERSION = 17


class FetchLoop:
    """Copies from one leader."""

    def __init__(self, broker: Broker, leader: int, partitions: Mapping[PartitionKey, Partition]) -> None:
        """Begin at once."""
        self.leader = leader
        self.leader_epochs = {key: partition.leader_epoch for key, partition in partitions.items()}
        self._broker = broker
        self._clock = broker.world.clock
        self._partitions = dict(partitions)
        self._topics = {partition.topic_id: partition.topic for partition in partitions.values()}
        self._resting: dict[PartitionKey, float] = {}  # until when a partition with an error is left out
        settings = broker.settings
        self._wait_ms = settings.number("replica.fetch.wait.max.ms")
        self._backoff_ms = settings.number("replica.fetch.backoff.ms")
        self._bytes_max = settings.number("replica.fetch.response.max.bytes")
        self._partition_bytes_max = settings.number("replica.fetch.max.bytes")
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Ask for nothing more, and take no answer that is under way."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except ConnectionFailure as error:
                log.debug("broker %d: %s", self._broker.id, error.summary)
                await self._clock.sleep_ms(self._backoff_ms)
            except Exception:  # an error in one round must not end replication for good
                log.exception("broker %d: copying from broker %d failed", self._broker.id, self.leader)
                await self._clock.sleep_ms(self._backoff_ms)

    async def _round(self) -> None:
        request = self._request()
        if not request.topics:
            await self._clock.sleep_ms(self._backoff_ms)
            return
        links = self._broker.cluster.links
        response = await links.ask(self._broker.id, self.leader, request, FetchResponse, FETCH_VERSION)
        # An error of the whole request: no partition says anything then.
        if response.error_code:
            await self._clock.sleep_ms(self._backoff_ms)
            return
        for partition in list(self._take_all(response)):
            if partition.log.config.flush_policy is FlushPolicy.EVERY:
                await partition.flush(partition.log.log_end_offset)  # the next request vouches for it

    def _request(self) -> FetchRequest:
        now_ms = self._clock.monotonic_ms()
        self._resting = {key: until_ms for key, until_ms in self._resting.items() if until_ms > now_ms}
        topics: dict[str, list[FetchPartition]] = {}
        for key, partition in self._partitions.items():
            if key not in self._resting:
                topics.setdefault(partition.topic, []).append(self._ask_for(partition))
        ids = {name: topic_id for topic_id, name in self._topics.items()}
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker.id, replica_epoch=self._broker.broker_epoch),
            # A partition that rests is asked for again soon, so the leader may not hold this request for its full time.
            max_wait_ms=min(self._wait_ms, self._backoff_ms) if self._resting else self._wait_ms,
            min_bytes=1,
            max_bytes=self._bytes_max,
            topics=[FetchTopic(topic_id=ids[name], partitions=rows) for name, rows in topics.items()],
        )

    def _ask_for(self, partition: Partition) -> FetchPartition:
        return FetchPartition(
            # The offset asked for tells the leader what this follower has;
            # the two epochs let it find stale askers and logs that part.
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=partition.log.log_end_offset,
            last_fetched_epoch=partition.log.epochs.latest,
            log_start_offset=partition.log.log_start_offset,
            partition_max_bytes=self._partition_bytes_max,
        )

    def _take_all(self, response: FetchResponse) -> Iterator[Partition]:
        """Take over every partition's part of the answer; those that have copied something."""
        for topic in response.responses:
            # By topic id, so records of a topic that was deleted and made again never enter the old replica.
            name = self._topics.get(topic.topic_id, "") if topic.topic_id is not None else ""
            for row in topic.partitions:
                partition = self._partitions.get((name, row.partition_index))
                if partition is not None and self._take(partition, row):
                    yield partition

    def _take(self, partition: Partition, row: PartitionData) -> bool:
        try:
            return take_row(partition, row)
        except (AppendRefused, EnvironmentFailure, OSError) as error:
            log.debug("broker %d: %s rests: %s", self._broker.id, partition.name, error)
            self._resting[partition.topic, partition.index] = self._clock.monotonic_ms() + self._backoff_ms
        return False


def take_row(partition: Partition, row: PartitionData) -> bool:
    """Do what the leader's answer says; true when something was copied. AppendRefused when nothing could be done."""
    # Retention at the leader has overtaken this follower: nothing that it holds can be continued.
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset >= 0:
        partition.start_at(row.log_start_offset)
    elif row.error_code:
        raise AppendRefused(ErrorCode(row.error_code), "the leader has an error")
    elif row.diverging_epoch.end_offset >= 0:
        _cut(partition, row.diverging_epoch)
    else:
        data = row.records.read() if isinstance(row.records, LogSlice) else b""
        partition.take_copy(memoryview(data), row.high_watermark, row.log_start_offset)
        return bool(data)
    return False


def _cut(partition: Partition, diverging: EpochEndOffset) -> None:
    before = (partition.log.log_end_offset, partition.log.epochs.latest)
    partition.truncate_to(truncation_offset(partition, diverging))
    if (partition.log.log_end_offset, partition.log.epochs.latest) == before:  # never ask the same again at once
        raise AppendRefused(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader's log parts from {before}, but nothing is to cut"
        )


def truncation_offset(partition: Partition, diverging: EpochEndOffset) -> int:
    """Where our log and the leader's can last have been the same, given the end of that epoch at the leader."""
    own = partition.log
    mine = own.offset_for_leader_epoch(diverging.epoch)
    # The leader knows no such epoch, or we have none: its end offset is all there is to go by.
    if diverging.epoch < 0 or mine.offset_next < 0:
        return min(diverging.end_offset, own.log_end_offset)
    if mine.leader_epoch != diverging.epoch:  # we never had that epoch: go back to the one below and ask again
        return min(mine.offset_next, own.log_end_offset)
    return min(mine.offset_next, diverging.end_offset, own.log_end_offset)


class FetchLoops:
    """The loops of one broker, one for each leader."""

    def __init__(self, broker: Broker) -> None:
        """Start with none."""
        self._broker = broker
        self._loops: dict[int, FetchLoop] = {}
        self._stopped = False

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Follow exactly these partitions, each under the leader and leader epoch of its state."""
        if self._stopped:  # news may come while the broker stops
            return
        wanted: dict[int, dict[PartitionKey, Partition]] = {}
        for partition in partitions:
            wanted.setdefault(partition.state.leader, {})[partition.topic, partition.index] = partition
        for leader in [leader for leader in self._loops if leader not in wanted]:
            self._loops.pop(leader).stop()
        for leader, followed in wanted.items():
            epochs = {key: partition.leader_epoch for key, partition in followed.items()}
            # A loop that goes on under an older leader epoch could append what the old leader answers late (R10).
            loop = self._loops.get(leader)
            if loop is not None and loop.leader_epochs == epochs:
                continue
            if loop is not None:
                loop.stop()
            self._loops[leader] = FetchLoop(self._broker, leader, followed)

    def stop(self) -> None:
        """End all loops for good."""
        self._stopped = True
        for loop in self._loops.values():
            loop.stop()
        self._loops.clear()
