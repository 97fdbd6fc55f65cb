"""list_partition_reassignments, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsTopics(Message):
    API_KEY: ClassVar[int] = 46
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
class ListPartitionReassignmentsRequest(Message):
    API_KEY: ClassVar[int] = 46
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    timeout_ms: int = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('timeout_ms', 'int32', 0, 0),
        Field('topics', 'message', 0, 0, nullable_first=0, array=True, message=ListPartitionReassignmentsTopics),
    )


@dataclass(slots=True, kw_only=True)
class OngoingPartitionReassignment(Message):
    API_KEY: ClassVar[int] = 46
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    partition_index: int = 0
    replicas: Sequence[int] = ()
    adding_replicas: Sequence[int] = ()
    removing_replicas: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 0),
        Field('replicas', 'int32', 0, 0, array=True),
        Field('adding_replicas', 'int32', 0, 0, array=True),
        Field('removing_replicas', 'int32', 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class OngoingTopicReassignment(Message):
    API_KEY: ClassVar[int] = 46
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    name: str = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('partitions', 'message', 0, 0, array=True, message=OngoingPartitionReassignment),
    )


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsResponse(Message):
    API_KEY: ClassVar[int] = 46
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('error_code', 'int16', 0, 0),
        Field('error_message', 'string', 0, 0, nullable_first=0),
        Field('topics', 'message', 0, 0, array=True, message=OngoingTopicReassignment),
    )
