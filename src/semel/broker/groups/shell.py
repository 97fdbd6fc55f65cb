"""The shell around the group coordinators: one per partition of `__consumer_offsets` that this broker leads.

It carries out their effects: appends records, waits until they are durable, hands answers to the requests that wait,
and wakes them at their deadlines.

Keeps: G5 nobody waits for ever: an append that is not durable in time is answered REQUEST_TIMED_OUT.
Why:   the coordinator's time starts as wall time and runs on with the monotonic clock, so that a jump of the wall clock
       neither expires every session nor keeps dead members for ever. Encoding thousands of records would hold up all
       brokers, so it has pauses; what the core asks for after such a batch waits behind it, and the order in the log
       is the one that the core has given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from semel.broker.coordinator.coordinators import Coordinators
from semel.broker.coordinator.shell import CoordinatorShell, stored_batches
from semel.broker.groups.classic.types import HeartbeatRequest
from semel.broker.groups.coordinator import GroupCoordinator
from semel.broker.groups.types import (
    NO_PRODUCER_ID,
    Answer,
    AppendRecords,
    Effect,
    GroupSettings,
    Later,
    LoadedMarker,
    LoadedRecord,
    Response,
)
from semel.broker.log.producer_state import Verification
from semel.broker.metadata.cluster_state import GROUP_TOPIC
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.broker.runtime.yielding import Pausing, run_pausing, run_through
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    NO_SEQUENCE,
    DraftRecord,
    Marker,
    decode_marker,
    decode_records,
    pack_batch,
    write_record,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.metadata.config import BrokerSettings

RECORDS_AT_ONCE_MAX = 500
MINUTE_MS = 60_000


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """The group settings among a broker's."""
    return GroupSettings(
        initial_rebalance_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min=settings.number("group.min.session.timeout.ms"),
        session_timeout_ms_max=settings.number("group.max.session.timeout.ms"),
        group_members_max=settings.number("group.max.size"),
        offset_metadata_bytes_max=settings.number("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.number("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=settings.number("offsets.retention.check.interval.ms"),
        consumer_group_members_max=settings.number("group.consumer.max.size"),
        consumer_heartbeat_interval_ms=settings.number("group.consumer.heartbeat.interval.ms"),
        consumer_session_timeout_ms=settings.number("group.consumer.session.timeout.ms"),
    )


class CoordinatorPartition(CoordinatorShell[Effect, Response]):
    """One group coordinator with its partition."""

    def __init__(self, broker: Broker, partition: Partition, tasks: Tasks, turns: asyncio.Lock) -> None:
        """Load the coordinator from the partition; `turns` lets one coordinator of a broker do long work at a time."""
        super().__init__(broker.world.clock, partition, tasks, broker.settings.number("offsets.commit.timeout.ms"))
        self._verifications: dict[int, Verification] = {}
        self._delayed: deque[tuple[AppendRecords | Later, Verification | None]] = deque()
        self._is_delaying = False
        self._turns = turns
        # A stream for each partition: member ids of one coordinator do not depend on what another draws.
        rng = broker.world.rng.fork(f"members {partition.index}")
        self.core = GroupCoordinator(group_settings(broker.settings), lambda: str(rng.uuid()), lambda: broker.state)
        self.perform(self.core.load(_loaded(partition), self.now_ms()))
        for topic in sorted(self.core.topics_with_offsets() - broker.state.topics.keys()):
            self.forget_topic(topic)  # its deletion was not carried through before the last coordinator ended

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Keep a member alive; its deadline only moves to a later time, so no timer has to be set."""
        return self.core.heartbeat(request, self.now_ms())

    async def ask(self, call: Callable[[GroupCoordinator, int, int], list[Effect]]) -> Response:
        """Make a call that is answered later, and wait for its answer."""
        return await self.wait(lambda token: call(self.core, token, self.now_ms()))

    def begin_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether offsets of this producer must be verified with its coordinator before they are written."""
        log = self.partition.log
        if not log.config.verify_transactions:
            return False
        # Offset commits carry no sequence; only the transaction has to be known to its coordinator.
        token = log.producers.begin_verification(producer_id, producer_epoch, NO_SEQUENCE, self.clock.wall_ms())
        if token is not None:
            self._verifications[producer_id] = token
        return token is not None

    def carry_out(self, effect: Effect) -> Iterable[Effect]:
        """Carry out one effect."""
        if isinstance(effect, Answer):
            self.answer(effect.token, effect.response)
            return ()
        if isinstance(effect, Later):
            return self._delay(effect, None)
        verification = self._verifications.pop(effect.producer_id, None)
        # While long work is under way, short appends queue behind it: the log must have the order of the decisions.
        if self._is_delaying or len(effect.records) > RECORDS_AT_ONCE_MAX:
            return self._delay(effect, verification)
        return self.append(effect.append_token, run_through(self._batch(effect)), verification)

    def _delay(self, effect: AppendRecords | Later, verification: Verification | None) -> tuple[()]:
        self._delayed.append((effect, verification))
        if not self._is_delaying:
            self._is_delaying = True
            self.tasks.start(self._carry_out_delayed())
        return ()

    async def _carry_out_delayed(self) -> None:
        """Long work and what came after it, in that order, while others are served."""
        try:
            while self._delayed and not self.resigned:
                async with self._turns:
                    await self.clock.sleep_ms(0)
                    await self._carry_out_some()
        except BaseException:
            if not self.resigned:
                self.close()  # everybody who waits is answered
            raise
        finally:
            self._delayed.clear()
            self._is_delaying = False

    async def _carry_out_some(self) -> None:
        room = RECORDS_AT_ONCE_MAX
        while self._delayed and room > 0 and not self.resigned:
            effect, verification = self._delayed.popleft()
            if isinstance(effect, Later):
                room = 0  # its part fills one turn
                # What it gives goes before all that was asked for after it, as `Later` promises.
                behind, self._delayed = self._delayed, deque()
                self.perform(self.core.resume(effect, self.now_ms()))
                self._delayed.extend(behind)
                continue
            room -= len(effect.records)
            batch = await run_pausing(self._batch(effect), self.clock)
            if not self.resigned:
                self.perform(self.append(effect.append_token, batch, verification))

    def _batch(self, effect: AppendRecords) -> Pausing[bytes]:
        wall_ms = self.clock.wall_ms()
        body = bytearray()
        for number, row in enumerate(effect.records):
            if number and number % RECORDS_AT_ONCE_MAX == 0:
                yield
            write_record(body, DraftRecord(key=row.key, value=row.value, timestamp_ms=wall_ms), 0, number)
        return pack_batch(
            body,
            record_count=len(effect.records),
            base_timestamp_ms=wall_ms,
            max_timestamp_ms=wall_ms,
            last_offset_delta=len(effect.records) - 1,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            # Offsets of a transaction are written under its producer, so that its marker ends them too.
            transactional=effect.producer_id != NO_PRODUCER_ID,
        )

    def tick(self, now_ms: int) -> list[Effect]:
        """Let the core act on its deadlines."""
        return self.core.tick(now_ms)

    def deadline_ms(self) -> int | None:
        """When the core wants to be woken."""
        return self.core.next_deadline_ms()

    def appended(self, token: int, code: ErrorCode, base_offset: int) -> list[Effect]:
        """Tell the core the fate of an append."""
        return self.core.appended(token, code, base_offset, self.now_ms())

    def append_timed_out(self, token: int) -> list[Effect]:
        """Tell the core that an append takes too long."""
        return self.core.append_timed_out(token, self.now_ms())

    def unload(self) -> list[Effect]:
        """Forget everything, and answer every request that waits with an error."""
        return self.core.unload()

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is gone."""
        self.perform(self.core.topic_deleted(topic, self.now_ms()))


class Groups(Coordinators[CoordinatorPartition]):
    """The group coordinators of one broker."""

    topic = GROUP_TOPIC
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def __init__(self, broker: Broker) -> None:
        """Start with none; they come with the partitions."""
        super().__init__(broker)
        # All coordinators of a broker share one loop: a topic that is deleted gives all
        # of them long work at the same moment.
        self._turns = asyncio.Lock()

    def load(self, partition: Partition) -> CoordinatorPartition:
        """Load the coordinator of one partition."""
        return CoordinatorPartition(self._broker, partition, self.tasks, self._turns)

    def complete_transaction(self, index: int, producer_id: int, *, commit: bool, marker_offset: int) -> None:
        """A transaction's marker is durable in a partition of the group topic."""
        coordinator = self.at(index)
        if coordinator is not None:
            coordinator.core.complete_transaction(producer_id, commit=commit, marker_offset=marker_offset)

    def topic_deleted(self, topic: str) -> None:
        """Offsets of a topic that is gone are forgotten."""
        for coordinator in self.all():
            coordinator.forget_topic(topic)


def _loaded(partition: Partition) -> Iterator[LoadedRecord | LoadedMarker]:
    for data, position, header in stored_batches(partition):
        if header.is_control and not header.record_count:  # compaction took the marker and kept its place
            continue
        if header.is_control:
            # Offsets before this marker are decided by it, as `complete_transaction` does while the coordinator runs.
            marker, _ = decode_marker(data, header, position)
            commit = marker is Marker.COMMIT
            yield LoadedMarker(offset=header.base_offset, producer_id=header.producer_id, commit=commit)
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in decode_records(data, header, position):
            yield LoadedRecord(offset=record.offset, key=record.key or b"", value=record.value, producer_id=producer_id)
