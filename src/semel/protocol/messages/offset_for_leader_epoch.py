"""offset_for_leader_epoch, v2-4. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderPartition(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition', 'int32', 2, 4),
        Field('current_leader_epoch', 'int32', 2, 4),
        Field('leader_epoch', 'int32', 2, 4),
    )


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopic(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    topic: str = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 2, 4),
        Field('partitions', 'message', 2, 4, array=True, message=OffsetForLeaderPartition),
    )


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochRequest(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    replica_id: int = -2
    topics: Sequence[OffsetForLeaderTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('replica_id', 'int32', 3, 4),
        Field('topics', 'message', 2, 4, array=True, message=OffsetForLeaderTopic),
    )


@dataclass(slots=True, kw_only=True)
class EpochEndOffset(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 2, 4),
        Field('partition', 'int32', 2, 4),
        Field('leader_epoch', 'int32', 2, 4),
        Field('end_offset', 'int64', 2, 4),
    )


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 2, 4),
        Field('partitions', 'message', 2, 4, array=True, message=EpochEndOffset),
    )


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse(Message):
    API_KEY: ClassVar[int] = 23
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 2, 4),
        Field('topics', 'message', 2, 4, array=True, message=OffsetForLeaderTopicResult),
    )
