"""list_offsets, v1-11. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartition(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 1, 11),
        Field('current_leader_epoch', 'int32', 4, 11),
        Field('timestamp', 'int64', 1, 11),
    )


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopic(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 11),
        Field('partitions', 'message', 1, 11, array=True, message=ListOffsetsPartition),
    )


@dataclass(slots=True, kw_only=True)
class ListOffsetsRequest(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    replica_id: int = 0
    isolation_level: int = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('replica_id', 'int32', 1, 11),
        Field('isolation_level', 'int8', 2, 11),
        Field('topics', 'message', 1, 11, array=True, message=ListOffsetsTopic),
        Field('timeout_ms', 'int32', 10, 11),
    )


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartitionResponse(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 1, 11),
        Field('error_code', 'int16', 1, 11),
        Field('timestamp', 'int64', 1, 11),
        Field('offset', 'int64', 1, 11),
        Field('leader_epoch', 'int32', 4, 11),
    )


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopicResponse(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 11),
        Field('partitions', 'message', 1, 11, array=True, message=ListOffsetsPartitionResponse),
    )


@dataclass(slots=True, kw_only=True)
class ListOffsetsResponse(Message):
    API_KEY: ClassVar[int] = 2
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int] = 6
    throttle_time_ms: int = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 2, 11),
        Field('topics', 'message', 1, 11, array=True, message=ListOffsetsTopicResponse),
    )
