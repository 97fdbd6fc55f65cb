"""offset_commit, v2-10. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 2, 10),
        Field('committed_offset', 'int64', 2, 10),
        Field('committed_leader_epoch', 'int32', 6, 10),
        Field('committed_metadata', 'string', 2, 10, nullable_first=2),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    topic_id: UUID | None = None
    name: str = ""
    partitions: Sequence[OffsetCommitRequestPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 10, 10),
        Field('name', 'string', 2, 9),
        Field('partitions', 'message', 2, 10, array=True, message=OffsetCommitRequestPartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequest(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: Sequence[OffsetCommitRequestTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 2, 10),
        Field('generation_id_or_member_epoch', 'int32', 2, 10),
        Field('member_id', 'string', 2, 10),
        Field('group_instance_id', 'string', 7, 10, nullable_first=7),
        Field('retention_time_ms', 'int64', 2, 4),
        Field('topics', 'message', 2, 10, array=True, message=OffsetCommitRequestTopic),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    partition_index: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 2, 10),
        Field('error_code', 'int16', 2, 10),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    topic_id: UUID | None = None
    name: str = ""
    partitions: Sequence[OffsetCommitResponsePartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 10, 10),
        Field('name', 'string', 2, 9),
        Field('partitions', 'message', 2, 10, array=True, message=OffsetCommitResponsePartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponse(Message):
    API_KEY: ClassVar[int] = 8
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    throttle_time_ms: int = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 3, 10),
        Field('topics', 'message', 2, 10, array=True, message=OffsetCommitResponseTopic),
    )
