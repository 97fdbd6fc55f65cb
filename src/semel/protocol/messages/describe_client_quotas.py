"""describe_client_quotas, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ComponentData(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('entity_type', 'string', 0, 1),
        Field('match_type', 'int8', 0, 1),
        Field('match', 'string', 0, 1, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasRequest(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    components: Sequence[ComponentData] = ()
    strict: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('components', 'message', 0, 1, array=True, message=ComponentData),
        Field('strict', 'bool', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class EntityData(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    entity_type: str = ""
    entity_name: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('entity_type', 'string', 0, 1),
        Field('entity_name', 'string', 0, 1, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class ValueData(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    key: str = ""
    value: float = 0.0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('key', 'string', 0, 1),
        Field('value', 'float64', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class EntryData(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('entity', 'message', 0, 1, array=True, message=EntityData),
        Field('values', 'message', 0, 1, array=True, message=ValueData),
    )


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasResponse(Message):
    API_KEY: ClassVar[int] = 48
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: Sequence[EntryData] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('entries', 'message', 0, 1, nullable_first=0, array=True, message=EntryData),
    )
