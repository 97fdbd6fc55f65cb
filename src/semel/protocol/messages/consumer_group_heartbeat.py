"""consumer_group_heartbeat, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class TopicPartitions(Message):
    API_KEY: ClassVar[int] = 68
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 0, 1),
        Field('partitions', 'int32', 0, 1, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(Message):
    API_KEY: ClassVar[int] = 68
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Sequence[TopicPartitions] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 1),
        Field('member_id', 'string', 0, 1),
        Field('member_epoch', 'int32', 0, 1),
        Field('instance_id', 'string', 0, 1, nullable_first=0),
        Field('rack_id', 'string', 0, 1, nullable_first=0),
        Field('rebalance_timeout_ms', 'int32', 0, 1),
        Field('subscribed_topic_names', 'string', 0, 1, nullable_first=0, array=True),
        Field('subscribed_topic_regex', 'string', 1, 1, nullable_first=1),
        Field('server_assignor', 'string', 0, 1, nullable_first=0),
        Field('topic_partitions', 'message', 0, 1, nullable_first=0, array=True, message=TopicPartitions),
    )


@dataclass(slots=True, kw_only=True)
class Assignment(Message):
    API_KEY: ClassVar[int] = 68
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_partitions: Sequence[TopicPartitions] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_partitions', 'message', 0, 1, array=True, message=TopicPartitions),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(Message):
    API_KEY: ClassVar[int] = 68
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('member_id', 'string', 0, 1, nullable_first=0),
        Field('member_epoch', 'int32', 0, 1),
        Field('heartbeat_interval_ms', 'int32', 0, 1),
        Field('assignment', 'message', 0, 1, nullable_first=0, message=Assignment),
    )
