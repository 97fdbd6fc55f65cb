"""OffsetDelete, DeleteGroups, deleted topics, and offsets that outlived their retention.

Keeps: G8 a deleted group has no offsets left, those on their way to the log included.
Why:   a group goes with one batch of tombstones, whole or not at all. The offsets of a topic, or those that expire, may
       be in thousands of groups; they go a few groups at a time, in several batches as in Apache Kafka, so that the
       loop can serve others. A coordinator that ends between two of them leaves the rest to the next, which sees that
       their topic is gone.
Sources: KIP-211 (when offsets expire), KIP-496 (OffsetDelete).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from semel.broker.groups.classic.state import Group
from semel.broker.groups.classic.types import GroupState
from semel.broker.groups.consumer.changes import Draft, forget_group
from semel.broker.groups.consumer.state import ConsumerGroup
from semel.broker.groups.core import AppendFate, GroupCore, no_answer
from semel.broker.groups.offsets.committed import CommittedOffset
from semel.broker.groups.offsets.types import DeleteOffsetsRequest, DeleteOffsetsResponse, PartitionResult
from semel.broker.groups.records import OffsetKey, OffsetValue, group_record, offset_record
from semel.broker.groups.timers import TimerKey, TimerKind
from semel.broker.groups.types import CONSUMER_PROTOCOL_TYPE, DeleteGroupResponse
from semel.protocol.error_codes import ErrorCode

FEW_OFFSETS_MAX = 20  # are deleted at once, though all coordinators of a broker hear of a topic at the same moment
OFFSETS_AT_ONCE_MAX = 1_000
EXPIRED_AT_ONCE_MAX = 100  # all coordinators of a broker may come to it at the same moment
LOOKS_PER_OFFSET = 16  # an offset that is looked at and left costs about so much less than one that is deleted


@dataclass(slots=True)
class _TopicDeletion:
    """The offsets of a deleted topic on their way out."""

    topic: str
    group_ids: Iterator[str]  # those that the walk has not come to
    unstable: dict[str, list[int]]  # partitions by group; what comes later is of another topic with this name
    parts: int = 1  # batches whose fate is not known, and the walk


class Deletions:
    """Writes tombstones, and drops what they name when they are durable."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core
        self._unexpired: deque[str] = deque()  # groups that this round of retention has not come to

    def delete_offsets(self, token: int, request: DeleteOffsetsRequest) -> None:
        """OffsetDelete: not for topics that members of the group still read."""
        group = self._core.consumer_group(request.group_id) or self._core.groups.get(request.group_id)
        error_code = _error_for_deletion(group)
        if group is None or error_code is not ErrorCode.NONE:
            self._core.answer(token, DeleteOffsetsResponse(error_code=error_code))
            return
        results = tuple(_judge(group, topic, partition) for topic, partition in request.partitions)
        known = self._core.offsets.keys_of_group(request.group_id)
        allowed = (result for result in results if result.error_code is ErrorCode.NONE)
        asked = (OffsetKey(group_id=request.group_id, topic=one.topic, partition=one.partition) for one in allowed)
        keys = [key for key in asked if key in known]
        self._delete_and_answer(token, request.group_id, keys, DeleteOffsetsResponse(results=results))

    def _delete_and_answer(
        self, token: int, group_id: str, keys: list[OffsetKey], response: DeleteOffsetsResponse
    ) -> None:
        def answer(error_code: ErrorCode) -> None:
            failed = DeleteOffsetsResponse(error_code=error_code)
            self._core.answer(token, response if error_code is ErrorCode.NONE else failed)

        if keys:
            self._write_tombstones(group_id, keys, answer)
        else:
            self._core.answer(token, response)

    def _remove(self, keys: Iterable[OffsetKey], fate: AppendFate) -> None:
        for key in keys if fate.is_durable else ():
            self._core.offsets.remove(key)

    def delete_group(self, token: int, group_id: str) -> None:
        """One group of DeleteGroups: only an empty one."""
        group, consumer = self._core.groups.get(group_id), self._core.consumer_group(group_id)
        if consumer is not None and consumer.members:
            self._core.answer(token, DeleteGroupResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
        elif consumer is not None:
            self._write_consumer_tombstones(consumer, token)
        elif group is None or group.state is GroupState.DEAD:
            self._core.answer(token, DeleteGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not GroupState.EMPTY:
            self._core.answer(token, DeleteGroupResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
        else:
            self._write_classic_tombstones(group, token)

    def _write_classic_tombstones(self, group: Group, token: int | None = None) -> None:
        """Write the tombstones; the group is Dead until they are durable, and Empty again if they are not."""
        # Kept: if the tombstones fail, its offsets go on ageing from there.
        empty_since_ms = group.state_timestamp_ms
        # From here on nobody can join or commit, so nothing lands behind the tombstones and outlives its group (G8).
        group.transition(GroupState.DEAD, self._core.now_ms)
        keys = self._offset_keys(group.group_id)

        def apply(fate: AppendFate) -> None:
            if fate.is_durable:
                self._remove(keys, fate)
                self._core.forget_group(group.group_id)
            else:
                group.transition(GroupState.EMPTY, empty_since_ms)

        # In one batch: a group without its offsets, or offsets without their group, are never seen.
        tombstones = (*(offset_record(key, None) for key in keys), group_record(group.group_id, None))
        self._core.append(group.group_id, tombstones, apply=apply, answer=self._answering(token))

    def _write_consumer_tombstones(self, group: ConsumerGroup, token: int | None = None) -> None:
        """Write the tombstones of a group of the consumer protocol; it is there again if they are not durable."""
        keys = self._offset_keys(group.group_id)
        draft = Draft(group)
        forget_group(draft)
        self._core.append_consumer_records(
            group.group_id,
            tuple(draft.records),
            before=tuple(offset_record(key, None) for key in keys),
            applied=lambda fate: self._remove(keys, fate),
            answer=self._answering(token),
        )

    def _offset_keys(self, group_id: str) -> list[OffsetKey]:
        return sorted(self._core.offsets.keys_of_group(group_id), key=lambda key: (key.topic, key.partition))

    def _answering(self, token: int | None) -> Callable[[ErrorCode], None]:
        def answer(error_code: ErrorCode) -> None:
            if token is not None:
                self._core.answer(token, DeleteGroupResponse(error_code=error_code))

        return answer

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is gone, in every group."""
        offsets = self._core.offsets
        group_ids = offsets.group_ids()
        if group_ids:
            # At once, though the tombstones take several turns: a topic of the same name may be made in between.
            offsets.hide(topic)
            work = _TopicDeletion(topic, iter(group_ids), offsets.unstable_of_topic(topic))
            if offsets.has_at_most(FEW_OFFSETS_MAX):
                self._forget_some(work)
            else:
                self._core.later(lambda: self._forget_some(work))

    def _forget_some(self, work: _TopicDeletion) -> None:
        """Delete them in a few groups; the others come after a turn for other requests."""
        room = OFFSETS_AT_ONCE_MAX
        for group_id in work.group_ids:
            visible = self._core.offsets.visible(group_id)
            partitions = {partition for topic, partition in visible if topic == work.topic}
            partitions.update(work.unstable.get(group_id, ()))
            if partitions:
                keys = [OffsetKey(group_id=group_id, topic=work.topic, partition=one) for one in sorted(partitions)]
                work.parts += 1
                self._write_tombstones(group_id, keys, applied=lambda: self._end_part(work))
            room -= 1 + len(partitions) + len(visible) // LOOKS_PER_OFFSET
            if room <= 0:
                self._core.later(lambda: self._forget_some(work))
                return
        self._end_part(work)

    def _end_part(self, work: _TopicDeletion) -> None:
        work.parts -= 1
        if not work.parts:
            self._core.offsets.unhide(work.topic)

    def _write_tombstones(
        self,
        group_id: str,
        keys: list[OffsetKey],
        answer: Callable[[ErrorCode], None] = no_answer,
        applied: Callable[[], None] = lambda: None,
    ) -> None:
        def apply(fate: AppendFate) -> None:
            self._remove(keys, fate)
            applied()

        records = tuple(offset_record(key, None) for key in keys)
        self._core.append(group_id, records, apply=apply, answer=answer)

    def expire_offsets(self) -> None:
        """Delete what outlived its retention, and groups that have nothing left; a few groups at a time."""
        core = self._core
        if not self._unexpired:
            self._unexpired.extend(core.groups)
            self._unexpired.extend(group.group_id for group in core.current_consumer_groups())
        room = EXPIRED_AT_ONCE_MAX
        while self._unexpired and room > 0:
            group_id = self._unexpired.popleft()
            # Groups count too: thousands of groups without an offset would be one long stretch otherwise.
            room -= 1 + len(core.offsets.visible(group_id))
            self._expire_in(group_id)
        if self._unexpired:
            core.timers.schedule(TimerKey(TimerKind.RETENTION), core.now_ms + 1)
        elif core.groups or core.consumer_entries:
            core.schedule_retention()

    def _expire_in(self, group_id: str) -> None:
        group, consumer = self._core.groups.get(group_id), self._core.consumer_group(group_id)
        if group is not None:
            is_idle = group.state is GroupState.EMPTY and not group.pending_join
            if not self._expire_some(group, is_idle=is_idle):
                self._write_classic_tombstones(group)
        elif consumer is not None and not self._expire_some(consumer, is_idle=not consumer.members):
            self._write_consumer_tombstones(consumer)

    def _expire_some(self, group: Group | ConsumerGroup, *, is_idle: bool) -> bool:
        """Delete the expired offsets of a group that goes on; says whether it does."""
        expired = self._expired(group)
        # Offsets on their way, or in a transaction that has not ended, keep the group alive too.
        is_left = len(expired) < len(self._core.offsets.visible(group.group_id))
        if is_idle and not is_left and not self._core.offsets.is_in_use(group.group_id):
            return False
        if expired:
            self._write_tombstones(group.group_id, expired)
        return True

    def _expired(self, group: Group | ConsumerGroup) -> list[OffsetKey]:
        offsets = self._core.offsets
        keys = (
            OffsetKey(group_id=group.group_id, topic=topic, partition=partition)
            for (topic, partition), committed in offsets.visible(group.group_id).items()
            if self._is_expired(group, topic, committed)
        )
        # What is about to be replaced is not expired: a tombstone behind the new offset would delete that one.
        return [key for key in keys if not offsets.is_unstable(key)]

    def _is_expired(self, group: Group | ConsumerGroup, topic: str, committed: CommittedOffset) -> bool:
        since_ms = _retention_start_ms(group, committed.value)
        if since_ms is None or group.is_subscribed(topic):
            return False
        if committed.value.expire_timestamp_ms is not None:
            return self._core.now_ms >= committed.value.expire_timestamp_ms
        return self._core.now_ms - since_ms >= self._core.settings.offsets_retention_ms


def _retention_start_ms(group: Group | ConsumerGroup, value: OffsetValue) -> int | None:
    """Find from when an offset ages; None while the group may still need it."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        # No protocol type: nobody ever joined, so its consumers assign their partitions themselves.
        return value.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        # KIP-211: while the group is empty its offsets age from the moment it became so.
        return group.state_timestamp_ms if group.state_timestamp_ms >= 0 else value.commit_timestamp_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        # Of a group with members only topics that nobody subscribes to age, see `_is_expired`.
        return value.commit_timestamp_ms
    return None


def _error_for_deletion(group: Group | ConsumerGroup | None) -> ErrorCode:
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_busy = group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE
    return ErrorCode.NON_EMPTY_GROUP if is_busy else ErrorCode.NONE


def _judge(group: Group | ConsumerGroup, topic: str, partition: int) -> PartitionResult:
    subscribed = group.is_subscribed(topic)
    error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
    return PartitionResult(topic=topic, partition=partition, error_code=error_code)
