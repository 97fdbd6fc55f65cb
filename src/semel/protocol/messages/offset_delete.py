"""offset_delete, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    partition_index: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('partitions', 'message', 0, 0, array=True, message=OffsetDeleteRequestPartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 0),
        Field('topics', 'message', 0, 0, array=True, message=OffsetDeleteRequestTopic),
    )


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    partition_index: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 0),
        Field('error_code', 'int16', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 0),
        Field('partitions', 'message', 0, 0, array=True, message=OffsetDeleteResponsePartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse(Message):
    API_KEY: ClassVar[int] = 47
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32768
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 0),
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('topics', 'message', 0, 0, array=True, message=OffsetDeleteResponseTopic),
    )
