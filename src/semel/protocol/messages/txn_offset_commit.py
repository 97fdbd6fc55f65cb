"""txn_offset_commit, v0-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 5),
        Field('committed_offset', 'int64', 0, 5),
        Field('committed_leader_epoch', 'int32', 2, 5),
        Field('committed_metadata', 'string', 0, 5, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 5),
        Field('partitions', 'message', 0, 5, array=True, message=TxnOffsetCommitRequestPartition),
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequest(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ''
    group_instance_id: str | None = None
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 0, 5),
        Field('group_id', 'string', 0, 5),
        Field('producer_id', 'int64', 0, 5),
        Field('producer_epoch', 'int16', 0, 5),
        Field('generation_id', 'int32', 3, 5),
        Field('member_id', 'string', 3, 5),
        Field('group_instance_id', 'string', 3, 5, nullable_first=3),
        Field('topics', 'message', 0, 5, array=True, message=TxnOffsetCommitRequestTopic),
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    partition_index: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 5),
        Field('error_code', 'int16', 0, 5),
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 5),
        Field('partitions', 'message', 0, 5, array=True, message=TxnOffsetCommitResponsePartition),
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponse(Message):
    API_KEY: ClassVar[int] = 28
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 5),
        Field('topics', 'message', 0, 5, array=True, message=TxnOffsetCommitResponseTopic),
    )
