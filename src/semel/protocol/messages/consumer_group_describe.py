"""consumer_group_describe, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeRequest(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    group_ids: Sequence[str] = ()
    include_authorized_operations: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_ids', 'string', 0, 1, array=True),
        Field('include_authorized_operations', 'bool', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class TopicPartitions(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_id', 'uuid', 0, 1),
        Field('topic_name', 'string', 0, 1),
        Field('partitions', 'int32', 0, 1, array=True),
    )


@dataclass(slots=True, kw_only=True)
class Assignment(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic_partitions: Sequence[TopicPartitions] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic_partitions', 'message', 0, 1, array=True, message=TopicPartitions),
    )


@dataclass(slots=True, kw_only=True)
class Member(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 0, 1),
        Field('instance_id', 'string', 0, 1, nullable_first=0),
        Field('rack_id', 'string', 0, 1, nullable_first=0),
        Field('member_epoch', 'int32', 0, 1),
        Field('client_id', 'string', 0, 1),
        Field('client_host', 'string', 0, 1),
        Field('subscribed_topic_names', 'string', 0, 1, array=True),
        Field('subscribed_topic_regex', 'string', 0, 1, nullable_first=0),
        Field('assignment', 'message', 0, 1, message=Assignment),
        Field('target_assignment', 'message', 0, 1, message=Assignment),
        Field('member_type', 'int8', 1, 1),
    )


@dataclass(slots=True, kw_only=True)
class DescribedGroup(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[Member] = ()
    authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('group_id', 'string', 0, 1),
        Field('group_state', 'string', 0, 1),
        Field('group_epoch', 'int32', 0, 1),
        Field('assignment_epoch', 'int32', 0, 1),
        Field('assignor_name', 'string', 0, 1),
        Field('members', 'message', 0, 1, array=True, message=Member),
        Field('authorized_operations', 'int32', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeResponse(Message):
    API_KEY: ClassVar[int] = 69
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('groups', 'message', 0, 1, array=True, message=DescribedGroup),
    )
