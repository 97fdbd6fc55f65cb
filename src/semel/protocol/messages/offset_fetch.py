"""offset_fetch, v1-10. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopic(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str = ""
    partition_indexes: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 7),
        Field('partition_indexes', 'int32', 1, 7, array=True),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopics(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    topic_id: UUID | None = None
    name: str = ""
    partition_indexes: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 10, 10),
        Field('name', 'string', 8, 9),
        Field('partition_indexes', 'int32', 8, 10, array=True),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestGroup(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: Sequence[OffsetFetchRequestTopics] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 8, 10),
        Field('member_id', 'string', 9, 10, nullable_first=9),
        Field('member_epoch', 'int32', 9, 10),
        Field('topics', 'message', 8, 10, nullable_first=8, array=True, message=OffsetFetchRequestTopics),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequest(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 6
    groups: Sequence[OffsetFetchRequestGroup] = ()
    group_id: str = ""
    topics: Sequence[OffsetFetchRequestTopic] | None = ()
    require_stable: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('groups', 'message', 8, 10, array=True, message=OffsetFetchRequestGroup),
        Field('group_id', 'string', 1, 7),
        Field('topics', 'message', 1, 7, nullable_first=2, array=True, message=OffsetFetchRequestTopic),
        Field('require_stable', 'bool', 7, 10),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartition(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 6
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 1, 7),
        Field('committed_offset', 'int64', 1, 7),
        Field('committed_leader_epoch', 'int32', 5, 7),
        Field('metadata', 'string', 1, 7, nullable_first=1),
        Field('error_code', 'int16', 1, 7),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopic(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 7),
        Field('partitions', 'message', 1, 7, array=True, message=OffsetFetchResponsePartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartitions(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 8, 10),
        Field('committed_offset', 'int64', 8, 10),
        Field('committed_leader_epoch', 'int32', 8, 10),
        Field('metadata', 'string', 8, 10, nullable_first=8),
        Field('error_code', 'int16', 8, 10),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopics(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    topic_id: UUID | None = None
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartitions] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 10, 10),
        Field('name', 'string', 8, 9),
        Field('partitions', 'message', 8, 10, array=True, message=OffsetFetchResponsePartitions),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseGroup(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 8
    group_id: str = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 8, 10),
        Field('topics', 'message', 8, 10, array=True, message=OffsetFetchResponseTopics),
        Field('error_code', 'int16', 8, 10),
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponse(Message):
    API_KEY: ClassVar[int] = 9
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int] = 6
    throttle_time_ms: int = 0
    groups: Sequence[OffsetFetchResponseGroup] = ()
    topics: Sequence[OffsetFetchResponseTopic] = ()
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 3, 10),
        Field('groups', 'message', 8, 10, array=True, message=OffsetFetchResponseGroup),
        Field('topics', 'message', 1, 7, array=True, message=OffsetFetchResponseTopic),
        Field('error_code', 'int16', 2, 7),
    )
