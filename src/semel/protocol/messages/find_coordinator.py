"""find_coordinator, v0-6. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class FindCoordinatorRequest(Message):
    API_KEY: ClassVar[int] = 10
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 3
    key: str = ""
    key_type: int = 0
    coordinator_keys: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('key', 'string', 0, 3),
        Field('key_type', 'int8', 1, 6),
        Field('coordinator_keys', 'string', 4, 6, array=True),
    )


@dataclass(slots=True, kw_only=True)
class Coordinator(Message):
    API_KEY: ClassVar[int] = 10
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 4
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('key', 'string', 4, 6),
        Field('node_id', 'int32', 4, 6),
        Field('host', 'string', 4, 6),
        Field('port', 'int32', 4, 6),
        Field('error_code', 'int16', 4, 6),
        Field('error_message', 'string', 4, 6, nullable_first=4),
    )


@dataclass(slots=True, kw_only=True)
class FindCoordinatorResponse(Message):
    API_KEY: ClassVar[int] = 10
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    coordinators: Sequence[Coordinator] = ()
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 6),
        Field('coordinators', 'message', 4, 6, array=True, message=Coordinator),
        Field('error_code', 'int16', 0, 3),
        Field('error_message', 'string', 1, 3, nullable_first=1),
        Field('node_id', 'int32', 0, 3),
        Field('host', 'string', 0, 3),
        Field('port', 'int32', 0, 3),
    )
