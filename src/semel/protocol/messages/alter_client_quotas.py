"""alter_client_quotas, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class EntityData(Message):
    API_KEY: ClassVar[int] = 49
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
class OpData(Message):
    API_KEY: ClassVar[int] = 49
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    key: str = ""
    value: float = 0.0
    remove: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('key', 'string', 0, 1),
        Field('value', 'float64', 0, 1),
        Field('remove', 'bool', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class EntryData(Message):
    API_KEY: ClassVar[int] = 49
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('entity', 'message', 0, 1, array=True, message=EntityData),
        Field('ops', 'message', 0, 1, array=True, message=OpData),
    )


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequest(Message):
    API_KEY: ClassVar[int] = 49
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    entries: Sequence[EntryData] = ()
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('entries', 'message', 0, 1, array=True, message=EntryData),
        Field('validate_only', 'bool', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class ResponseEntryData(Message):
    API_KEY: ClassVar[int] = 49
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    error_code: int = 0
    error_message: str | None = ""
    entity: Sequence[EntityData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('entity', 'message', 0, 1, array=True, message=EntityData),
    )


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponse(Message):
    API_KEY: ClassVar[int] = 49
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    throttle_time_ms: int = 0
    entries: Sequence[ResponseEntryData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('entries', 'message', 0, 1, array=True, message=ResponseEntryData),
    )
