"""describe_topic_partitions, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicRequest(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class Cursor(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_name: str = ""
    partition_index: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_name', 'string', 0, 0),
        Field('partition_index', 'int32', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequest(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 0, array=True, message=TopicRequest),
        Field('response_partition_limit', 'int32', 0, 0),
        Field('cursor', 'message', 0, 0, nullable_first=0, message=Cursor),
    )


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    offline_replicas: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 0),
        Field('partition_index', 'int32', 0, 0),
        Field('leader_id', 'int32', 0, 0),
        Field('leader_epoch', 'int32', 0, 0),
        Field('replica_nodes', 'int32', 0, 0, array=True),
        Field('isr_nodes', 'int32', 0, 0, array=True),
        Field('eligible_leader_replicas', 'int32', 0, 0, nullable_first=0, array=True),
        Field('last_known_elr', 'int32', 0, 0, nullable_first=0, array=True),
        Field('offline_replicas', 'int32', 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    error_code: int = 0
    name: str | None = ""
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 0),
        Field('name', 'string', 0, 0, nullable_first=0),
        Field('topic_id', 'uuid', 0, 0),
        Field('is_internal', 'bool', 0, 0),
        Field('partitions', 'message', 0, 0, array=True, message=DescribeTopicPartitionsResponsePartition),
        Field('topic_authorized_operations', 'int32', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponse(Message):
    API_KEY: ClassVar[int] = 75
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('topics', 'message', 0, 0, array=True, message=DescribeTopicPartitionsResponseTopic),
        Field('next_cursor', 'message', 0, 0, nullable_first=0, message=Cursor),
    )
