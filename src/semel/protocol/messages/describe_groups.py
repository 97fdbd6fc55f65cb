"""describe_groups, v0-6. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest(Message):
    API_KEY: ClassVar[int] = 15
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5
    groups: Sequence[str] = ()
    include_authorized_operations: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('groups', 'string', 0, 6, array=True),
        Field('include_authorized_operations', 'bool', 3, 6),
    )


@dataclass(slots=True, kw_only=True)
class DescribedGroupMember(Message):
    API_KEY: ClassVar[int] = 15
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('member_id', 'string', 0, 6),
        Field('group_instance_id', 'string', 4, 6, nullable_first=4),
        Field('client_id', 'string', 0, 6),
        Field('client_host', 'string', 0, 6),
        Field('member_metadata', 'bytes', 0, 6),
        Field('member_assignment', 'bytes', 0, 6),
    )


@dataclass(slots=True, kw_only=True)
class DescribedGroup(Message):
    API_KEY: ClassVar[int] = 15
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: int = -2147483648
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 6),
        Field('error_message', 'string', 6, 6, nullable_first=6),
        Field('group_id', 'string', 0, 6),
        Field('group_state', 'string', 0, 6),
        Field('protocol_type', 'string', 0, 6),
        Field('protocol_data', 'string', 0, 6),
        Field('members', 'message', 0, 6, array=True, message=DescribedGroupMember),
        Field('authorized_operations', 'int32', 3, 6),
    )


@dataclass(slots=True, kw_only=True)
class DescribeGroupsResponse(Message):
    API_KEY: ClassVar[int] = 15
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 5
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 6),
        Field('groups', 'message', 0, 6, array=True, message=DescribedGroup),
    )
