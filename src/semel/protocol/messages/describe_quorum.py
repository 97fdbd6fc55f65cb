"""describe_quorum, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class PartitionData(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class TopicData(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_name: str = ""
    partitions: Sequence[PartitionData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_name', 'string', 0, 2),
        Field('partitions', 'message', 0, 2, array=True, message=PartitionData),
    )


@dataclass(slots=True, kw_only=True)
class DescribeQuorumRequest(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    topics: Sequence[TopicData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 2, array=True, message=TopicData),
    )


@dataclass(slots=True, kw_only=True)
class ReplicaState(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    replica_id: int = 0
    replica_directory_id: UUID | None = None
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('replica_id', 'int32', 0, 2),
        Field('replica_directory_id', 'uuid', 2, 2),
        Field('log_end_offset', 'int64', 0, 2),
        Field('last_fetch_timestamp', 'int64', 1, 2),
        Field('last_caught_up_timestamp', 'int64', 1, 2),
    )


@dataclass(slots=True, kw_only=True)
class ResponsePartitionData(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 2),
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 2, 2, nullable_first=2),
        Field('leader_id', 'int32', 0, 2),
        Field('leader_epoch', 'int32', 0, 2),
        Field('high_watermark', 'int64', 0, 2),
        Field('current_voters', 'message', 0, 2, array=True, message=ReplicaState),
        Field('observers', 'message', 0, 2, array=True, message=ReplicaState),
    )


@dataclass(slots=True, kw_only=True)
class ResponseTopicData(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_name: str = ""
    partitions: Sequence[ResponsePartitionData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_name', 'string', 0, 2),
        Field('partitions', 'message', 0, 2, array=True, message=ResponsePartitionData),
    )


@dataclass(slots=True, kw_only=True)
class Listener(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    host: str = ""
    port: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 2, 2),
        Field('host', 'string', 2, 2),
        Field('port', 'uint16', 2, 2),
    )


@dataclass(slots=True, kw_only=True)
class Node(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    node_id: int = 0
    listeners: Sequence[Listener] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('node_id', 'int32', 2, 2),
        Field('listeners', 'message', 2, 2, array=True, message=Listener),
    )


@dataclass(slots=True, kw_only=True)
class DescribeQuorumResponse(Message):
    API_KEY: ClassVar[int] = 55
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: Sequence[ResponseTopicData] = ()
    nodes: Sequence[Node] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 2, 2, nullable_first=2),
        Field('topics', 'message', 0, 2, array=True, message=ResponseTopicData),
        Field('nodes', 'message', 2, 2, array=True, message=Node),
    )
