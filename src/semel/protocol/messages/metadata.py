"""metadata, v0-13. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class MetadataRequestTopic(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    topic_id: UUID | None = None
    name: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 10, 13),
        Field('name', 'string', 0, 13, nullable_first=10),
    )


@dataclass(slots=True, kw_only=True)
class MetadataRequest(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    topics: Sequence[MetadataRequestTopic] | None = ()
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 13, nullable_first=1, array=True, message=MetadataRequestTopic),
        Field('allow_auto_topic_creation', 'bool', 4, 13),
        Field('include_cluster_authorized_operations', 'bool', 8, 10),
        Field('include_topic_authorized_operations', 'bool', 8, 13),
    )


@dataclass(slots=True, kw_only=True)
class MetadataResponseBroker(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('node_id', 'int32', 0, 13),
        Field('host', 'string', 0, 13),
        Field('port', 'int32', 0, 13),
        Field('rack', 'string', 1, 13, nullable_first=1),
    )


@dataclass(slots=True, kw_only=True)
class MetadataResponsePartition(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    offline_replicas: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 13),
        Field('partition_index', 'int32', 0, 13),
        Field('leader_id', 'int32', 0, 13),
        Field('leader_epoch', 'int32', 7, 13),
        Field('replica_nodes', 'int32', 0, 13, array=True),
        Field('isr_nodes', 'int32', 0, 13, array=True),
        Field('offline_replicas', 'int32', 5, 13, array=True),
    )


@dataclass(slots=True, kw_only=True)
class MetadataResponseTopic(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    error_code: int = 0
    name: str | None = ""
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 13),
        Field('name', 'string', 0, 13, nullable_first=12),
        Field('topic_id', 'uuid', 10, 13),
        Field('is_internal', 'bool', 1, 13),
        Field('partitions', 'message', 0, 13, array=True, message=MetadataResponsePartition),
        Field('topic_authorized_operations', 'int32', 8, 13),
    )


@dataclass(slots=True, kw_only=True)
class MetadataResponse(Message):
    API_KEY: ClassVar[int] = 3
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    throttle_time_ms: int = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Sequence[MetadataResponseTopic] = ()
    error_code: int = 0
    cluster_authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 3, 13),
        Field('brokers', 'message', 0, 13, array=True, message=MetadataResponseBroker),
        Field('cluster_id', 'string', 2, 13, nullable_first=2),
        Field('controller_id', 'int32', 1, 13),
        Field('topics', 'message', 0, 13, array=True, message=MetadataResponseTopic),
        Field('error_code', 'int16', 13, 13),
        Field('cluster_authorized_operations', 'int32', 8, 10),
    )
