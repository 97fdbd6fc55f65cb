"""join_group, v0-9. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol(Message):
    API_KEY: ClassVar[int] = 11
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6
    name: str = ""
    metadata: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 9),
        Field('metadata', 'bytes', 0, 9),
    )


@dataclass(slots=True, kw_only=True)
class JoinGroupRequest(Message):
    API_KEY: ClassVar[int] = 11
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 9),
        Field('session_timeout_ms', 'int32', 0, 9),
        Field('rebalance_timeout_ms', 'int32', 1, 9),
        Field('member_id', 'string', 0, 9),
        Field('group_instance_id', 'string', 5, 9, nullable_first=5),
        Field('protocol_type', 'string', 0, 9),
        Field('protocols', 'message', 0, 9, array=True, message=JoinGroupRequestProtocol),
        Field('reason', 'string', 8, 9, nullable_first=8),
    )


@dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember(Message):
    API_KEY: ClassVar[int] = 11
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6
    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 0, 9),
        Field('group_instance_id', 'string', 5, 9, nullable_first=5),
        Field('metadata', 'bytes', 0, 9),
    )


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse(Message):
    API_KEY: ClassVar[int] = 11
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int] = 6
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupResponseMember] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 2, 9),
        Field('error_code', 'int16', 0, 9),
        Field('generation_id', 'int32', 0, 9),
        Field('protocol_type', 'string', 7, 9, nullable_first=7),
        Field('protocol_name', 'string', 0, 9, nullable_first=7),
        Field('leader', 'string', 0, 9),
        Field('skip_assignment', 'bool', 9, 9),
        Field('member_id', 'string', 0, 9),
        Field('members', 'message', 0, 9, array=True, message=JoinGroupResponseMember),
    )
