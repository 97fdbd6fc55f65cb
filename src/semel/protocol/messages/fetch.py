"""fetch, v4-18. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message, Part


@dataclass(slots=True, kw_only=True)
class FetchPartition(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID | None = None
    high_watermark: int = 9223372036854775807
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition', 'int32', 4, 18),
        Field('current_leader_epoch', 'int32', 9, 18),
        Field('fetch_offset', 'int64', 4, 18),
        Field('last_fetched_epoch', 'int32', 12, 18),
        Field('log_start_offset', 'int64', 5, 18),
        Field('partition_max_bytes', 'int32', 4, 18),
        Field('replica_directory_id', 'uuid', 17, 18, tag=0, tagged_first=17),
        Field('high_watermark', 'int64', 18, 18, tag=1, tagged_first=18),
    )


@dataclass(slots=True, kw_only=True)
class FetchTopic(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    topic_id: UUID | None = None
    topic: str = ""
    partitions: Sequence[FetchPartition] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 13, 18),
        Field('topic', 'string', 4, 12),
        Field('partitions', 'message', 4, 18, array=True, message=FetchPartition),
    )


@dataclass(slots=True, kw_only=True)
class ForgottenTopic(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 7
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    topic_id: UUID | None = None
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 13, 18),
        Field('topic', 'string', 7, 12),
        Field('partitions', 'int32', 7, 18, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ReplicaState(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 15
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 15
    replica_id: int = -1
    replica_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('replica_id', 'int32', 15, 18),
        Field('replica_epoch', 'int64', 15, 18),
    )


@dataclass(slots=True, kw_only=True)
class FetchRequest(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    cluster_id: str | None = None
    replica_state: ReplicaState = field(default_factory=ReplicaState)
    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ''
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('cluster_id', 'string', 12, 18, nullable_first=12, tag=0, tagged_first=12),
        Field('replica_state', 'message', 15, 18, tag=1, tagged_first=15, message=ReplicaState),
        Field('replica_id', 'int32', 4, 14),
        Field('max_wait_ms', 'int32', 4, 18),
        Field('min_bytes', 'int32', 4, 18),
        Field('max_bytes', 'int32', 4, 18),
        Field('isolation_level', 'int8', 4, 18),
        Field('session_id', 'int32', 7, 18),
        Field('session_epoch', 'int32', 7, 18),
        Field('topics', 'message', 4, 18, array=True, message=FetchTopic),
        Field('forgotten_topics_data', 'message', 7, 18, array=True, message=ForgottenTopic),
        Field('rack_id', 'string', 11, 18),
    )


@dataclass(slots=True, kw_only=True)
class AbortedTransaction(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    producer_id: int = 0
    first_offset: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('producer_id', 'int64', 4, 18),
        Field('first_offset', 'int64', 4, 18),
    )


@dataclass(slots=True, kw_only=True)
class EpochEndOffset(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 12
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    epoch: int = -1
    end_offset: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('epoch', 'int32', 12, 18),
        Field('end_offset', 'int64', 12, 18),
    )


@dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 12
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    leader_id: int = -1
    leader_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('leader_id', 'int32', 12, 18),
        Field('leader_epoch', 'int32', 12, 18),
    )


@dataclass(slots=True, kw_only=True)
class SnapshotId(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 12
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    end_offset: int = -1
    epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('end_offset', 'int64', 12, 18),
        Field('epoch', 'int32', 12, 18),
    )


@dataclass(slots=True, kw_only=True)
class PartitionData(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int = -1
    records: Part | None = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 4, 18),
        Field('error_code', 'int16', 4, 18),
        Field('high_watermark', 'int64', 4, 18),
        Field('last_stable_offset', 'int64', 4, 18),
        Field('log_start_offset', 'int64', 5, 18),
        Field('diverging_epoch', 'message', 12, 18, tag=0, tagged_first=12, message=EpochEndOffset),
        Field('current_leader', 'message', 12, 18, tag=1, tagged_first=12, message=LeaderIdAndEpoch),
        Field('snapshot_id', 'message', 12, 18, tag=2, tagged_first=12, message=SnapshotId),
        Field('aborted_transactions', 'message', 4, 18, nullable_first=4, array=True, message=AbortedTransaction),
        Field('preferred_read_replica', 'int32', 11, 18),
        Field('records', 'records', 4, 18, nullable_first=4),
    )


@dataclass(slots=True, kw_only=True)
class FetchableTopicResponse(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    topic_id: UUID | None = None
    topic: str = ""
    partitions: Sequence[PartitionData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 13, 18),
        Field('topic', 'string', 4, 12),
        Field('partitions', 'message', 4, 18, array=True, message=PartitionData),
    )


@dataclass(slots=True, kw_only=True)
class NodeEndpoint(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 16
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 16
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('node_id', 'int32', 16, 18),
        Field('host', 'string', 16, 18),
        Field('port', 'int32', 16, 18),
        Field('rack', 'string', 16, 18, nullable_first=16),
    )


@dataclass(slots=True, kw_only=True)
class FetchResponse(Message):
    API_KEY: ClassVar[int] = 1
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 18
    FLEXIBLE_FROM: ClassVar[int] = 12
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 4, 18),
        Field('error_code', 'int16', 7, 18),
        Field('session_id', 'int32', 7, 18),
        Field('responses', 'message', 4, 18, array=True, message=FetchableTopicResponse),
        Field('node_endpoints', 'message', 16, 18, tag=0, tagged_first=16, array=True, message=NodeEndpoint),
    )
