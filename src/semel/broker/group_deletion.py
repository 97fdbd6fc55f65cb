"""OffsetDelete, DeleteGroups, deleted topics, and offsets that outlived their retention.

Keeps: G8 a deleted group has no offsets left, those on their way to the log included.
Sources: KIP-211 (when offsets expire), KIP-496 (OffsetDelete).
"""

from collections.abc import Callable, Iterable

from semel.broker.consumer_group_draft import Draft, bury
from semel.broker.consumer_group_state import ConsumerGroup
from semel.broker.group_core import AppendFate, GroupCore, no_answer
from semel.broker.group_offsets import CommittedOffset
from semel.broker.group_records import OffsetKey, OffsetValue, group_record, offset_record
from semel.broker.group_state import Group
from semel.broker.group_types import (
    CONSUMER_PROTOCOL_TYPE,
    DeleteGroupResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    GroupState,
    PartitionResult,
)
from semel.protocol.error_codes import ErrorCode


class Deletions:
    """Writes tombstones, and drops what they name when they are durable."""

    def __init__(self, core: GroupCore) -> None:
        """Work on the shared state."""
        self._core = core

    def delete_offsets(self, token: int, request: DeleteOffsetsRequest) -> None:
        """OffsetDelete: not for topics that members of the group still read."""
        group = self._core.consumer_group(request.group_id) or self._core.groups.get(request.group_id)
        fault = _fault_of_deletion(group)
        if group is None or fault is not ErrorCode.NONE:
            self._core.answer(token, DeleteOffsetsResponse(error_code=fault))
            return
        results = tuple(_judge(group, topic, partition) for topic, partition in request.partitions)
        known = self._core.offsets.keys_of_group(request.group_id)
        allowed = (result for result in results if result.error_code is ErrorCode.NONE)
        keys = [key for key in (_key(request.group_id, result) for result in allowed) if key in known]
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
            self._bury_consumer(consumer, token)
        elif group is None or group.state is GroupState.DEAD:
            self._core.answer(token, DeleteGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not GroupState.EMPTY:
            self._core.answer(token, DeleteGroupResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
        else:
            self._bury(group, token)

    def _bury(self, group: Group, token: int | None = None) -> None:
        """Write the tombstones; the group is Dead until they are durable, and Empty again if they are not."""
        empty_since_ms = group.state_timestamp_ms
        group.transition(GroupState.DEAD, self._core.now_ms)
        keys = self._offset_keys(group.group_id)

        def apply(fate: AppendFate) -> None:
            if fate.is_durable:
                self._remove(keys, fate)
                self._core.forget_group(group.group_id)
            else:
                group.transition(GroupState.EMPTY, empty_since_ms)

        tombstones = (*(offset_record(key, None) for key in keys), group_record(group.group_id, None))
        self._core.append(group.group_id, tombstones, apply=apply, answer=self._answering(token))

    def _bury_consumer(self, group: ConsumerGroup, token: int | None = None) -> None:
        """Write the tombstones of a group of the consumer protocol; it is there again if they are not durable."""
        keys = self._offset_keys(group.group_id)
        draft = Draft(group)
        bury(draft)
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
        by_group: dict[str, list[OffsetKey]] = {}
        for key in sorted(self._core.offsets.keys(), key=lambda key: (key.group_id, key.partition)):
            if key.topic == topic:
                by_group.setdefault(key.group_id, []).append(key)
        for group_id, keys in by_group.items():
            self._write_tombstones(group_id, keys)

    def _write_tombstones(
        self, group_id: str, keys: list[OffsetKey], answer: Callable[[ErrorCode], None] = no_answer
    ) -> None:
        records = tuple(offset_record(key, None) for key in keys)
        self._core.append(group_id, records, apply=lambda fate: self._remove(keys, fate), answer=answer)

    def expire_offsets(self) -> None:
        """Delete what outlived its retention, and groups that have nothing left."""
        for group in list(self._core.groups.values()):
            if not self._expire_some(group, is_idle=group.state is GroupState.EMPTY and not group.pending_join):
                self._bury(group)
        for consumer in self._core.current_consumer_groups():
            if not self._expire_some(consumer, is_idle=not consumer.members):
                self._bury_consumer(consumer)
        if self._core.groups or self._core.consumer_slots:
            self._core.schedule_retention()

    def _expire_some(self, group: Group | ConsumerGroup, *, is_idle: bool) -> bool:
        """Delete the expired offsets of a group that goes on; says whether it does."""
        expired = self._expired(group)
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
        return value.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        return group.state_timestamp_ms if group.state_timestamp_ms >= 0 else value.commit_timestamp_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return value.commit_timestamp_ms
    return None


def _fault_of_deletion(group: Group | ConsumerGroup | None) -> ErrorCode:
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


def _key(group_id: str, result: PartitionResult) -> OffsetKey:
    return OffsetKey(group_id=group_id, topic=result.topic, partition=result.partition)
