"""The shell around the group coordinators: one per partition of `__consumer_offsets` that this broker leads.

It carries out their effects: appends records, waits until they are durable, hands answers to the requests that wait,
and wakes them at their deadlines.

Keeps: G5 nobody waits for ever: an append that is not durable in time is answered REQUEST_TIMED_OUT.
Why:   the coordinator's time starts as wall time and runs on with the monotonic clock, so that a jump of the wall clock
       neither expires every session nor keeps dead members for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from semel.broker.cluster_state import GROUP_TOPIC
from semel.broker.group_coordinator import GroupCoordinator
from semel.broker.group_types import (
    NO_PRODUCER_ID,
    Answer,
    AppendRecords,
    Effect,
    GroupSettings,
    HeartbeatRequest,
    LoadedMarker,
    LoadedRecord,
    Response,
)
from semel.broker.log_types import AppendRefused, Origin
from semel.broker.partition import Partition
from semel.broker.producer_state import Verification
from semel.broker.tasks import Tasks
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import (
    NO_SEQUENCE,
    DraftRecord,
    Marker,
    decode_marker,
    decode_records,
    encode_batch,
    iter_headers,
)
from semel.world.clock import Timer

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.config import BrokerSettings

LOAD_BYTES = 1 << 20
MINUTE_MS = 60_000


def java_string_hash(text: str) -> int:
    """The hash code that Java gives a string, as a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def coordinator_partition(key: str, partitions: int) -> int:
    """Which partition of an internal topic belongs to this group or transactional id."""
    return (java_string_hash(key) & 0x7FFFFFFF) % partitions


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
    )


class _Append(NamedTuple):
    """A batch in the log that is not known to be durable yet."""

    token: int
    base_offset: int
    offset_next: int
    deadline_ms: int


class CoordinatorPartition:
    """One coordinator with the partition that is its memory."""

    def __init__(self, broker: Broker, partition: Partition, tasks: Tasks) -> None:
        """Load the coordinator from the partition."""
        self._clock = broker.world.clock
        self._partition = partition
        self._tasks = tasks
        self._token_next = 0
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._verifications: dict[int, Verification] = {}
        self._appended: deque[_Append] = deque()
        self._append_wait_ms_max = broker.settings.number("offsets.commit.timeout.ms")
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._append_timer: Timer | None = None
        self._start_ms = self._clock.wall_ms() - self._clock.monotonic_ms()
        rng = broker.world.rng.fork(f"members {partition.index}")
        self.core = GroupCoordinator(group_settings(broker.settings), lambda: str(rng.uuid()))
        self.perform(self.core.load(_loaded(partition), self._now_ms()))

    def _now_ms(self) -> int:
        return int(self._start_ms + self._clock.monotonic_ms())

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Keep a member alive; its deadline only moves back, so no timer has to be set."""
        return self.core.heartbeat(request, self._now_ms())

    async def ask(self, call: Callable[[GroupCoordinator, int, int], list[Effect]]) -> Response:
        """Make a call that is answered later, and wait for its answer."""
        token = self._token_next
        self._token_next += 1
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            self.perform(call(self.core, token, self._now_ms()))
            return await future
        finally:
            self._waiting.pop(token, None)

    @property
    def index(self) -> int:
        """The partition of the group topic."""
        return self._partition.index

    def begin_verification(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether offsets of this producer must be verified with its coordinator before they are written."""
        log = self._partition.log
        if not log.config.verify_transactions:
            return False
        token = log.producers.begin_verification(producer_id, producer_epoch, NO_SEQUENCE, self._clock.wall_ms())
        if token is not None:
            self._verifications[producer_id] = token
        return token is not None

    def perform(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, and those that follow from them."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Answer):
                future = self._waiting.get(effect.token)
                if future is not None and not future.done():
                    future.set_result(effect.response)
            else:
                todo.extend(self._append(effect))
        self._schedule()

    def _append(self, effect: AppendRecords) -> list[Effect]:
        now_ms = self._now_ms()
        wall_ms = self._clock.wall_ms()
        drafts = [DraftRecord(key=row.key, value=row.value, timestamp_ms=wall_ms) for row in effect.records]
        batch = encode_batch(
            drafts,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            transactional=effect.producer_id != NO_PRODUCER_ID,
        )
        try:
            result = self._partition.append(
                memoryview(bytearray(batch)),
                origin=Origin.COORDINATOR,
                verification=self._verifications.pop(effect.producer_id, None),
            )
        except AppendRefused as refused:
            return self.core.appended(effect.append_token, ErrorCode(refused.code), -1, now_ms)
        except OSError:
            return self.core.appended(effect.append_token, ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, now_ms)
        deadline_ms = now_ms + self._append_wait_ms_max
        self._appended.append(_Append(effect.append_token, result.base_offset, result.last_offset + 1, deadline_ms))
        if len(self._appended) == 1:
            self._tasks.start(self._acknowledge())
        return []

    async def _acknowledge(self) -> None:
        """Report appends in log order, each when it is durable."""
        self._append_timer = self._clock.call_later_ms(self._append_wait_ms_max, self._watch_appends)
        while self._appended:
            append = self._appended[0]
            code = ErrorCode.NONE
            try:
                await self._partition.acknowledge(append.offset_next)
            except OSError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._appended.popleft()
            self.perform(self.core.appended(append.token, code, append.base_offset, self._now_ms()))
        self._append_timer.cancel()

    def _watch_appends(self) -> None:
        """Answer requests whose records take too long, and go on watching."""
        now_ms = self._now_ms()
        for append in [append for append in self._appended if append.deadline_ms <= now_ms]:
            self.perform(self.core.append_timed_out(append.token, now_ms))
        self._append_timer = self._clock.call_later_ms(self._append_wait_ms_max, self._watch_appends)

    def _schedule(self) -> None:
        """Set the timer; one that is due too early is left, since it looks again when it fires."""
        deadline_ms = self.core.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_at_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        self._timer = self._clock.call_later_ms(max(deadline_ms - self._now_ms(), 1), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.perform(self.core.tick(self._now_ms()))

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is gone."""
        self.perform(self.core.topic_deleted(topic, self._now_ms()))

    def close(self) -> None:
        """Answer whoever waits and stop."""
        self.perform(self.core.unload())
        for timer in (self._timer, self._append_timer):
            if timer is not None:
                timer.cancel()


class Groups:
    """The coordinators of one broker."""

    def __init__(self, broker: Broker) -> None:
        """Start with none; they come with the partitions."""
        self._broker = broker
        self.tasks = Tasks()
        self._coordinators: dict[int, CoordinatorPartition] = {}

    def partitions_changed(self) -> None:
        """Follow the leadership of the group topic's partitions."""
        mine = {index: part for (topic, index), part in self._broker.partitions.items() if topic == GROUP_TOPIC}
        for index in self._coordinators.keys() - mine.keys():
            self._coordinators.pop(index).close()
        for index in mine.keys() - self._coordinators.keys():
            self._coordinators[index] = CoordinatorPartition(self._broker, mine[index], self.tasks)

    def find(self, group_id: str) -> CoordinatorPartition | ErrorCode:
        """The coordinator of a group, or why it is not here."""
        topic = self._broker.state.topics.get(GROUP_TOPIC)
        if topic is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        index = coordinator_partition(group_id, len(topic.partitions))
        return self._coordinators.get(index, ErrorCode.NOT_COORDINATOR)

    def all(self) -> Iterator[CoordinatorPartition]:
        """Every coordinator here."""
        yield from self._coordinators.values()

    def complete_transaction(self, index: int, producer_id: int, *, commit: bool) -> None:
        """A transaction's marker is durable in a partition of the group topic."""
        coordinator = self._coordinators.get(index)
        if coordinator is not None:
            coordinator.core.complete_transaction(producer_id, commit=commit)

    def topic_deleted(self, topic: str) -> None:
        """Offsets of a topic that is gone are forgotten."""
        for coordinator in self._coordinators.values():
            coordinator.forget_topic(topic)

    def close(self) -> None:
        """Stop all coordinators."""
        for coordinator in self._coordinators.values():
            coordinator.close()
        self._coordinators.clear()
        self.tasks.cancel()


def _loaded(partition: Partition) -> Iterator[LoadedRecord | LoadedMarker]:
    offset = partition.log.log_start_offset
    while offset < partition.log.log_end_offset:
        data = partition.log.read(offset, bytes_max=LOAD_BYTES).read()
        for position, header in iter_headers(data):
            offset = header.offset_next
            if header.is_control:
                marker, _ = decode_marker(data, header, position)
                commit = marker is Marker.COMMIT
                yield LoadedMarker(offset=header.base_offset, producer_id=header.producer_id, commit=commit)
                continue
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in decode_records(data, header, position):
                yield LoadedRecord(
                    offset=record.offset, key=record.key or b"", value=record.value, producer_id=producer_id
                )
