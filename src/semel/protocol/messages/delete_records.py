"""delete_records, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    partition_index: int = 0
    offset: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 2),
        Field('offset', 'int64', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    partitions: Sequence[DeleteRecordsPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 2),
        Field('partitions', 'message', 0, 2, array=True, message=DeleteRecordsPartition),
    )


@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 2, array=True, message=DeleteRecordsTopic),
        Field('timeout_ms', 'int32', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 2),
        Field('low_watermark', 'int64', 0, 2),
        Field('error_code', 'int16', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 2),
        Field('partitions', 'message', 0, 2, array=True, message=DeleteRecordsPartitionResult),
    )


@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse(Message):
    API_KEY: ClassVar[int] = 21
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('topics', 'message', 0, 2, array=True, message=DeleteRecordsTopicResult),
    )
