"""produce, v3-13. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message, Part


@dataclass(slots=True, kw_only=True)
class PartitionProduceData(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    index: int = 0
    records: Part | None = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('index', 'int32', 3, 13),
        Field('records', 'records', 3, 13, nullable_first=3),
    )


@dataclass(slots=True, kw_only=True)
class TopicProduceData(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    topic_id: UUID | None = None
    name: str = ""
    partition_data: Sequence[PartitionProduceData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 13, 13),
        Field('name', 'string', 3, 12),
        Field('partition_data', 'message', 3, 13, array=True, message=PartitionProduceData),
    )


@dataclass(slots=True, kw_only=True)
class ProduceRequest(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: Sequence[TopicProduceData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 3, 13, nullable_first=3),
        Field('acks', 'int16', 3, 13),
        Field('timeout_ms', 'int32', 3, 13),
        Field('topic_data', 'message', 3, 13, array=True, message=TopicProduceData),
    )


@dataclass(slots=True, kw_only=True)
class BatchIndexAndErrorMessage(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 8
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    batch_index: int = 0
    batch_index_error_message: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('batch_index', 'int32', 8, 13),
        Field('batch_index_error_message', 'string', 8, 13, nullable_first=8),
    )


@dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 10
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 10
    leader_id: int = -1
    leader_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('leader_id', 'int32', 10, 13),
        Field('leader_epoch', 'int32', 10, 13),
    )


@dataclass(slots=True, kw_only=True)
class PartitionProduceResponse(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('index', 'int32', 3, 13),
        Field('error_code', 'int16', 3, 13),
        Field('base_offset', 'int64', 3, 13),
        Field('log_append_time_ms', 'int64', 3, 13),
        Field('log_start_offset', 'int64', 5, 13),
        Field('record_errors', 'message', 8, 13, array=True, message=BatchIndexAndErrorMessage),
        Field('error_message', 'string', 8, 13, nullable_first=8),
        Field('current_leader', 'message', 10, 13, tag=0, tagged_first=10, message=LeaderIdAndEpoch),
    )


@dataclass(slots=True, kw_only=True)
class TopicProduceResponse(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    topic_id: UUID | None = None
    name: str = ""
    partition_responses: Sequence[PartitionProduceResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 13, 13),
        Field('name', 'string', 3, 12),
        Field('partition_responses', 'message', 3, 13, array=True, message=PartitionProduceResponse),
    )


@dataclass(slots=True, kw_only=True)
class NodeEndpoint(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 10
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 10
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('node_id', 'int32', 10, 13),
        Field('host', 'string', 10, 13),
        Field('port', 'int32', 10, 13),
        Field('rack', 'string', 10, 13, nullable_first=10),
    )


@dataclass(slots=True, kw_only=True)
class ProduceResponse(Message):
    API_KEY: ClassVar[int] = 0
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int] = 9
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('responses', 'message', 3, 13, array=True, message=TopicProduceResponse),
        Field('throttle_time_ms', 'int32', 3, 13),
        Field('node_endpoints', 'message', 10, 13, tag=0, tagged_first=10, array=True, message=NodeEndpoint),
    )
