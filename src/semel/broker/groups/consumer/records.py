"""Records of groups of the consumer protocol in `__consumer_offsets`, in Apache Kafka's own formats.

Keeps: what is written here can be read by Kafka's tools, and what Kafka 4 wrote can be read here. A kind that is not
       kept (old subscription metadata, members that use the classic protocol) is passed over.
Sources: Kafka's ConsumerGroupMetadata, -MemberMetadata, -TargetAssignmentMetadata, -TargetAssignmentMember,
         -CurrentMemberAssignment and -RegularExpression schemas.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar
from uuid import UUID

from semel.broker.coordinator.field_reader import FieldReader
from semel.broker.groups.consumer.types import Held, TopicIdPartition
from semel.broker.groups.types import CoordinatorRecord
from semel.errors import ProtocolError, UnsupportedVersionError
from semel.protocol.message import Field, Message, decode, encode_bytes

VALUE_VERSION = 0
NO_TOPIC_ID = UUID(int=0)


# Kafka tells records of `__consumer_offsets` apart by the version of their key.
class Kind(IntEnum):
    """What a record is about; the numbers are the versions of Kafka's keys."""

    GROUP = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


NAMED = frozenset({Kind.MEMBER, Kind.TARGET, Kind.CURRENT, Kind.REGEX})  # by member id or regular expression


@dataclass(slots=True, kw_only=True)
class GroupValue(Message):
    """The group epoch, and the metadata it was counted for."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    epoch: int = 0
    metadata_hash: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", 0, 0),
        Field("metadata_hash", "int64", 0, 0, tag=0, tagged_first=0),
    )


@dataclass(slots=True, kw_only=True)
class MemberValue(Message):
    """What a member said of itself."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: Sequence[str] = ()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("instance_id", "string", 0, 0, nullable_first=0),
        Field("rack_id", "string", 0, 0, nullable_first=0),
        Field("client_id", "string", 0, 0),
        Field("client_host", "string", 0, 0),
        Field("subscribed_names", "string", 0, 0, array=True),
        Field("subscribed_regex", "string", 0, 0, nullable_first=0),
        Field("rebalance_timeout_ms", "int32", 0, 0),
        Field("server_assignor", "string", 0, 0, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class TargetEpochValue(Message):
    """The group epoch that the targets were made for."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    epoch: int = 0
    timestamp_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", 0, 0),
        Field("timestamp_ms", "int64", 0, 0, tag=0, tagged_first=0),
    )


@dataclass(slots=True, kw_only=True)
class TargetPartitions(Message):
    """Partitions of one topic in a target."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class TargetValue(Message):
    """The partitions that a member should get to."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    topics: Sequence[TargetPartitions] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topics", "message", 0, 0, array=True, message=TargetPartitions),)


@dataclass(slots=True, kw_only=True)
class CurrentPartitions(Message):
    """Partitions of one topic that a member has, with the epoch at which it got each."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    epochs: Sequence[int] | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
        Field("epochs", "int32", 0, 0, nullable_first=0, tag=0, tagged_first=0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class CurrentValue(Message):
    """The partitions that a member has, and how far it is."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    member_epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    assigned: Sequence[CurrentPartitions] = ()
    revoking: Sequence[CurrentPartitions] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", 0, 0),
        Field("previous_epoch", "int32", 0, 0),
        Field("state", "int8", 0, 0),
        Field("assigned", "message", 0, 0, array=True, message=CurrentPartitions),
        Field("revoking", "message", 0, 0, array=True, message=CurrentPartitions),
    )


@dataclass(slots=True, kw_only=True)
class RegexValue(Message):
    """The topics that a regular expression means."""

    FLEXIBLE_FROM: ClassVar[int] = 0
    topics: Sequence[str] = ()
    version: int = 0
    timestamp_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", 0, 0, array=True),
        Field("version", "int64", 0, 0),
        Field("timestamp_ms", "int64", 0, 0),
    )


Value = GroupValue | MemberValue | TargetEpochValue | TargetValue | CurrentValue | RegexValue

VALUES: dict[Kind, type[Value]] = {
    Kind.GROUP: GroupValue,
    Kind.MEMBER: MemberValue,
    Kind.TARGET_EPOCH: TargetEpochValue,
    Kind.TARGET: TargetValue,
    Kind.CURRENT: CurrentValue,
    Kind.REGEX: RegexValue,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """One change of a group; without a value what it names is gone."""

    kind: Kind
    group_id: str
    name: str = ""
    value: Value | None = None


def encode_record(record: ConsumerRecord) -> CoordinatorRecord:
    """Encode a record with its key."""
    key = struct.pack(">h", record.kind) + _string(record.group_id)
    if record.kind in NAMED:
        key += _string(record.name)
    value = None if record.value is None else struct.pack(">h", VALUE_VERSION) + encode_bytes(record.value, 0)
    return CoordinatorRecord(key=key, value=value)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def decode_record(key: bytes, value: bytes | None) -> ConsumerRecord | None:
    """Read a record; None for a kind that is not one of these."""
    reader = FieldReader(key)
    number = reader.int16()
    # Share and streams groups have kinds of their own in the same topic.
    if number not in set(Kind):
        return None
    kind = Kind(number)
    group_id = reader.text()
    name = reader.text() if kind in NAMED else ""
    return ConsumerRecord(kind=kind, group_id=group_id, name=name, value=_decode_value(kind, value))


def _decode_value(kind: Kind, value: bytes | None) -> Value | None:
    if value is None:
        return None
    version = FieldReader(value).int16()
    if version != VALUE_VERSION:
        raise UnsupportedVersionError(f"version {version} of a consumer group's {kind.name} value is not known here")
    return decode(VALUES[kind], value[2:], VALUE_VERSION)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Partitions in order, grouped by topic."""
    grouped: dict[UUID, list[int]] = {}
    # Sorted, so that equal assignments are equal bytes in the log.
    for topic_id, index in sorted(partitions):
        grouped.setdefault(topic_id, []).append(index)
    return grouped


def target_value(partitions: Iterable[TopicIdPartition]) -> TargetValue:
    """A target as it is written."""
    rows = by_topic(partitions).items()
    return TargetValue(topics=[TargetPartitions(topic_id=topic_id, partitions=found) for topic_id, found in rows])


def held_partitions(held: Held) -> list[CurrentPartitions]:
    """Partitions of a member as they are written."""
    return [
        CurrentPartitions(topic_id=topic_id, partitions=found, epochs=[held[topic_id, index] for index in found])
        for topic_id, found in by_topic(held).items()
    ]


def read_target(value: TargetValue) -> frozenset[TopicIdPartition]:
    """A target as it was written."""
    return frozenset((row.topic_id or NO_TOPIC_ID, index) for row in value.topics for index in row.partitions)


def read_held(rows: Iterable[CurrentPartitions]) -> dict[TopicIdPartition, int]:
    """Partitions of a member as they were written; what older brokers wrote has no epochs, which counts as 0."""
    held: dict[TopicIdPartition, int] = {}
    for row in rows:
        # 0 is below every epoch that a member can commit under, so old records refuse nothing.
        epochs = [0] * len(row.partitions) if row.epochs is None else row.epochs
        if len(epochs) != len(row.partitions):
            raise ProtocolError("a consumer group's record has another number of epochs than of partitions")
        held |= {
            (row.topic_id or NO_TOPIC_ID, index): epoch for index, epoch in zip(row.partitions, epochs, strict=True)
        }
    return held
