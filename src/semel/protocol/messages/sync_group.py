"""sync_group, v0-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment(Message):
    API_KEY: ClassVar[int] = 14
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    member_id: str = ""
    assignment: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 0, 5),
        Field('assignment', 'bytes', 0, 5),
    )


@dataclass(slots=True, kw_only=True)
class SyncGroupRequest(Message):
    API_KEY: ClassVar[int] = 14
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 5),
        Field('generation_id', 'int32', 0, 5),
        Field('member_id', 'string', 0, 5),
        Field('group_instance_id', 'string', 3, 5, nullable_first=3),
        Field('protocol_type', 'string', 5, 5, nullable_first=5),
        Field('protocol_name', 'string', 5, 5, nullable_first=5),
        Field('assignments', 'message', 0, 5, array=True, message=SyncGroupRequestAssignment),
    )


@dataclass(slots=True, kw_only=True)
class SyncGroupResponse(Message):
    API_KEY: ClassVar[int] = 14
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 5),
        Field('error_code', 'int16', 0, 5),
        Field('protocol_type', 'string', 5, 5, nullable_first=5),
        Field('protocol_name', 'string', 5, 5, nullable_first=5),
        Field('assignment', 'bytes', 0, 5),
    )
