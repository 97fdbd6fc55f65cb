"""Records of `__consumer_offsets` as bytes, in Apache Kafka's own formats.

Keeps: what is written here can be read by Kafka's tools, and what Kafka wrote (values v0 to v4) can be read here.

Writes:   OffsetCommitKey v1, OffsetCommitValue v3 (v1 when the client set a retention time), GroupMetadataKey v2,
          GroupMetadataValue v3. Kafka 4 writes the same versions.
Sources:  Kafka's OffsetCommitKey/Value and GroupMetadataKey/Value schemas; KIP-915 (v4 is flexible).
"""

import struct
from dataclasses import dataclass

from semel.broker.coordinator.field_reader import FieldReader
from semel.broker.groups.offsets.types import NO_LEADER_EPOCH
from semel.broker.groups.types import CoordinatorRecord
from semel.errors import ProtocolError

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
# Version 1 alone has a field for the time of expiry.
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3
STRING_BYTES_MAX = 2**15 - 1
TIMESTAMP_MS_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetKey:
    """Names one partition of one group."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """Names one group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """A committed offset as stored."""

    offset_next: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member as stored: its metadata for the chosen protocol only."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    """A group generation as stored."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


def offset_record(key: OffsetKey, value: OffsetValue | None) -> CoordinatorRecord:
    """Encode a committed offset, or its tombstone."""
    encoded = struct.pack(">h", OFFSET_KEY_VERSION) + _string(key.group_id) + _string(key.topic)
    encoded += struct.pack(">i", key.partition)
    return CoordinatorRecord(key=encoded, value=None if value is None else _offset_value(value))


def group_record(group_id: str, value: GroupValue | None) -> CoordinatorRecord:
    """Encode a group generation, or its tombstone."""
    encoded = struct.pack(">h", GROUP_KEY_VERSION) + _string(group_id)
    return CoordinatorRecord(key=encoded, value=None if value is None else _group_value(value))


def fits_string(*texts: str | None) -> bool:
    """Say whether each text can stand in a length-prefixed string field."""
    return all(text is None or len(text.encode()) <= STRING_BYTES_MAX for text in texts)


def _offset_value(value: OffsetValue) -> bytes:
    offset, metadata = struct.pack(">q", value.offset_next), _string(value.metadata)
    # Such a value has no leader epoch: that came with version 3, which has no time of expiry.
    if value.expire_timestamp_ms is not None:
        head = struct.pack(">h", OFFSET_VALUE_VERSION_WITH_EXPIRY) + offset
        return head + metadata + struct.pack(">qq", value.commit_timestamp_ms, value.expire_timestamp_ms)
    head = struct.pack(">h", OFFSET_VALUE_VERSION) + offset + struct.pack(">i", value.leader_epoch)
    return head + metadata + struct.pack(">q", value.commit_timestamp_ms)


def _group_value(value: GroupValue) -> bytes:
    head = struct.pack(">h", GROUP_VALUE_VERSION) + _string(value.protocol_type)
    head += struct.pack(">i", value.generation) + _string(value.protocol_name) + _string(value.leader)
    head += struct.pack(">qi", value.state_timestamp_ms, len(value.members))
    return head + b"".join(_stored_member(member) for member in value.members)


def _stored_member(member: StoredMember) -> bytes:
    names = _string(member.member_id) + _string(member.group_instance_id)
    client = _string(member.client_id) + _string(member.client_host)
    times = struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
    return names + client + times + _bytes(member.metadata) + _bytes(member.assignment)


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ProtocolError(f"a string of {len(encoded)} bytes does not fit a group record")
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Read a key; None for a kind that is not kept here (other group types), as Kafka skips those too."""
    reader = FieldReader(key)
    version = reader.int16()
    # Both versions have the same fields.
    if version in (0, OFFSET_KEY_VERSION):
        return OffsetKey(group_id=reader.text(), topic=reader.text(), partition=reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(group_id=reader.text())
    return None


def decode_offset_value(value: bytes) -> OffsetValue:
    """Read a committed offset of any version."""
    reader = FieldReader(value)
    version = reader.value_version("offset")
    offset_next = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.text()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    return OffsetValue(
        offset_next=offset_next,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms < 0 else expire_timestamp_ms,
    )


def decode_group_value(value: bytes) -> GroupValue:
    """Read a group generation of any version."""
    reader = FieldReader(value)
    version = reader.value_version("group")
    return GroupValue(
        protocol_type=reader.text(),
        generation=reader.int32(),
        protocol_name=reader.nullable_text(),
        leader=reader.nullable_text(),
        state_timestamp_ms=reader.int64() if version >= 2 else -1,
        members=tuple(_decode_member(reader, version) for _ in range(reader.array_length())),
    )


def _decode_member(reader: FieldReader, version: int) -> StoredMember:
    member_id = reader.text()
    group_instance_id = reader.nullable_text() if version >= 3 else None
    client_id, client_host = reader.text(), reader.text()
    # Before version 1 a member had one time for both, so the session's is taken below.
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    member = StoredMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        metadata=reader.blob(),
        assignment=reader.blob(),
    )
    reader.skip_tags()
    return member


def decode_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topics in a consumer's subscription; every version starts as v0 does. None when it is not a subscription."""
    reader = FieldReader(metadata)
    try:
        # The version of the subscription.
        reader.int16()
        return frozenset(reader.text() for _ in range(reader.array_length()))
    except ProtocolError:
        return None
