"""heartbeat, v0-4. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class HeartbeatRequest(Message):
    API_KEY: ClassVar[int] = 12
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 4),
        Field('generation_id', 'int32', 0, 4),
        Field('member_id', 'string', 0, 4),
        Field('group_instance_id', 'string', 3, 4, nullable_first=3),
    )


@dataclass(slots=True, kw_only=True)
class HeartbeatResponse(Message):
    API_KEY: ClassVar[int] = 12
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 4),
        Field('error_code', 'int16', 0, 4),
    )
