"""delete_topics, v1-6. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DeleteTopicState(Message):
    API_KEY: ClassVar[int] = 20
    FIRST: ClassVar[int] = 6
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str | None = None
    topic_id: UUID | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 6, 6, nullable_first=6),
        Field('topic_id', 'uuid', 6, 6),
    )


@dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest(Message):
    API_KEY: ClassVar[int] = 20
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4
    topics: Sequence[DeleteTopicState] = ()
    topic_names: Sequence[str] = ()
    timeout_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topics', 'message', 6, 6, array=True, message=DeleteTopicState),
        Field('topic_names', 'string', 1, 5, array=True),
        Field('timeout_ms', 'int32', 1, 6),
    )


@dataclass(slots=True, kw_only=True)
class DeletableTopicResult(Message):
    API_KEY: ClassVar[int] = 20
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4
    name: str | None = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 6, nullable_first=6),
        Field('topic_id', 'uuid', 6, 6),
        Field('error_code', 'int16', 1, 6),
        Field('error_message', 'string', 5, 6, nullable_first=5),
    )


@dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse(Message):
    API_KEY: ClassVar[int] = 20
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    responses: Sequence[DeletableTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 6),
        Field('responses', 'message', 1, 6, array=True, message=DeletableTopicResult),
    )
