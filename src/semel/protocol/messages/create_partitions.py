"""create_partitions, v0-3. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment(Message):
    API_KEY: ClassVar[int] = 37
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    broker_ids: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('broker_ids', 'int32', 0, 3, array=True),
    )


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic(Message):
    API_KEY: ClassVar[int] = 37
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    count: int = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 3),
        Field('count', 'int32', 0, 3),
        Field('assignments', 'message', 0, 3, nullable_first=0, array=True, message=CreatePartitionsAssignment),
    )


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest(Message):
    API_KEY: ClassVar[int] = 37
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: int = 0
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 0, 3, array=True, message=CreatePartitionsTopic),
        Field('timeout_ms', 'int32', 0, 3),
        Field('validate_only', 'bool', 0, 3),
    )


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult(Message):
    API_KEY: ClassVar[int] = 37
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    error_code: int = 0
    error_message: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 3),
        Field('error_code', 'int16', 0, 3),
        Field('error_message', 'string', 0, 3, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse(Message):
    API_KEY: ClassVar[int] = 37
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    results: Sequence[CreatePartitionsTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 3),
        Field('results', 'message', 0, 3, array=True, message=CreatePartitionsTopicResult),
    )
