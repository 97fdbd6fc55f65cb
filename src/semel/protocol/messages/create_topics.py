"""create_topics, v2-7. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    partition_index: int = 0
    broker_ids: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 2, 7),
        Field('broker_ids', 'int32', 2, 7, array=True),
    )


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfig(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    name: str = ""
    value: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 2, 7),
        Field('value', 'string', 2, 7, nullable_first=2),
    )


@dataclass(slots=True, kw_only=True)
class CreatableTopic(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 2, 7),
        Field('num_partitions', 'int32', 2, 7),
        Field('replication_factor', 'int16', 2, 7),
        Field('assignments', 'message', 2, 7, array=True, message=CreatableReplicaAssignment),
        Field('configs', 'message', 2, 7, array=True, message=CreatableTopicConfig),
    )


@dataclass(slots=True, kw_only=True)
class CreateTopicsRequest(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int = 60000
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 2, 7, array=True, message=CreatableTopic),
        Field('timeout_ms', 'int32', 2, 7),
        Field('validate_only', 'bool', 2, 7),
    )


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 5
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 5, 7),
        Field('value', 'string', 5, 7, nullable_first=5),
        Field('read_only', 'bool', 5, 7),
        Field('config_source', 'int8', 5, 7),
        Field('is_sensitive', 'bool', 5, 7),
    )


@dataclass(slots=True, kw_only=True)
class CreatableTopicResult(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    name: str = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[CreatableTopicConfigs] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 2, 7),
        Field('topic_id', 'uuid', 7, 7),
        Field('error_code', 'int16', 2, 7),
        Field('error_message', 'string', 2, 7, nullable_first=2),
        Field('topic_config_error_code', 'int16', 5, 7, tag=0, tagged_first=5),
        Field('num_partitions', 'int32', 5, 7),
        Field('replication_factor', 'int16', 5, 7),
        Field('configs', 'message', 5, 7, nullable_first=5, array=True, message=CreatableTopicConfigs),
    )


@dataclass(slots=True, kw_only=True)
class CreateTopicsResponse(Message):
    API_KEY: ClassVar[int] = 19
    FIRST: ClassVar[int] = 2
    LAST: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int] = 5
    throttle_time_ms: int = 0
    topics: Sequence[CreatableTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 2, 7),
        Field('topics', 'message', 2, 7, array=True, message=CreatableTopicResult),
    )
