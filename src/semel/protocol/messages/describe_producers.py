"""describe_producers, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicRequest(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    partition_indexes: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('partition_indexes', 'int32', 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class DescribeProducersRequest(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    topics: Sequence[TopicRequest] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 0, array=True, message=TopicRequest),
    )


@dataclass(slots=True, kw_only=True)
class ProducerState(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('producer_id', 'int64', 0, 0),
        Field('producer_epoch', 'int32', 0, 0),
        Field('last_sequence', 'int32', 0, 0),
        Field('last_timestamp', 'int64', 0, 0),
        Field('coordinator_epoch', 'int32', 0, 0),
        Field('current_txn_start_offset', 'int64', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class PartitionResponse(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 0),
        Field('error_code', 'int16', 0, 0),
        Field('error_message', 'string', 0, 0, nullable_first=0),
        Field('active_producers', 'message', 0, 0, array=True, message=ProducerState),
    )


@dataclass(slots=True, kw_only=True)
class TopicResponse(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    partitions: Sequence[PartitionResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('partitions', 'message', 0, 0, array=True, message=PartitionResponse),
    )


@dataclass(slots=True, kw_only=True)
class DescribeProducersResponse(Message):
    API_KEY: ClassVar[int] = 61
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    topics: Sequence[TopicResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('topics', 'message', 0, 0, array=True, message=TopicResponse),
    )
