"""alter_partition_reassignments, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ReassignablePartition(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    replicas: Sequence[int] | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 1),
        Field('replicas', 'int32', 0, 1, nullable_first=0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ReassignableTopic(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    partitions: Sequence[ReassignablePartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 1),
        Field('partitions', 'message', 0, 1, array=True, message=ReassignablePartition),
    )


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: Sequence[ReassignableTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('timeout_ms', 'int32', 0, 1),
        Field('allow_replication_factor_change', 'bool', 1, 1),
        Field('topics', 'message', 0, 1, array=True, message=ReassignableTopic),
    )


@dataclass(slots=True, kw_only=True)
class ReassignablePartitionResponse(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 1),
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class ReassignableTopicResponse(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 1),
        Field('partitions', 'message', 0, 1, array=True, message=ReassignablePartitionResponse),
    )


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(Message):
    API_KEY: ClassVar[int] = 45
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('allow_replication_factor_change', 'bool', 1, 1),
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('responses', 'message', 0, 1, array=True, message=ReassignableTopicResponse),
    )
