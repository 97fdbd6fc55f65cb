"""elect_leaders, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicPartitions(Message):
    API_KEY: ClassVar[int] = 43
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 0, 2),
        Field('partitions', 'int32', 0, 2, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest(Message):
    API_KEY: ClassVar[int] = 43
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    election_type: int = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: int = 60000
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('election_type', 'int8', 1, 2),
        Field('topic_partitions', 'message', 0, 2, nullable_first=0, array=True, message=TopicPartitions),
        Field('timeout_ms', 'int32', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class PartitionResult(Message):
    API_KEY: ClassVar[int] = 43
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_id', 'int32', 0, 2),
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 0, 2, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class ReplicaElectionResult(Message):
    API_KEY: ClassVar[int] = 43
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    topic: str = ""
    partition_result: Sequence[PartitionResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 0, 2),
        Field('partition_result', 'message', 0, 2, array=True, message=PartitionResult),
    )


@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse(Message):
    API_KEY: ClassVar[int] = 43
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('error_code', 'int16', 1, 2),
        Field('replica_election_results', 'message', 0, 2, array=True, message=ReplicaElectionResult),
    )
