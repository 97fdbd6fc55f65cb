"""leave_group, v0-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class MemberIdentity(Message):
    API_KEY: ClassVar[int] = 13
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 3, 5),
        Field('group_instance_id', 'string', 3, 5, nullable_first=3),
        Field('reason', 'string', 5, 5, nullable_first=5),
    )


@dataclass(slots=True, kw_only=True)
class LeaveGroupRequest(Message):
    API_KEY: ClassVar[int] = 13
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    group_id: str = ""
    members: Sequence[MemberIdentity] = ()
    member_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 5),
        Field('members', 'message', 3, 5, array=True, message=MemberIdentity),
        Field('member_id', 'string', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class MemberResponse(Message):
    API_KEY: ClassVar[int] = 13
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 3, 5),
        Field('group_instance_id', 'string', 3, 5, nullable_first=3),
        Field('error_code', 'int16', 3, 5),
    )


@dataclass(slots=True, kw_only=True)
class LeaveGroupResponse(Message):
    API_KEY: ClassVar[int] = 13
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    error_code: int = 0
    members: Sequence[MemberResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 5),
        Field('error_code', 'int16', 0, 5),
        Field('members', 'message', 3, 5, array=True, message=MemberResponse),
    )
