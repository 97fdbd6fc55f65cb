"""list_groups, v0-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ListGroupsRequest(Message):
    API_KEY: ClassVar[int] = 16
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    states_filter: Sequence[str] = ()
    types_filter: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('states_filter', 'string', 4, 5, array=True),
        Field('types_filter', 'string', 5, 5, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ListedGroup(Message):
    API_KEY: ClassVar[int] = 16
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 5),
        Field('protocol_type', 'string', 0, 5),
        Field('group_state', 'string', 4, 5),
        Field('group_type', 'string', 5, 5),
    )


@dataclass(slots=True, kw_only=True)
class ListGroupsResponse(Message):
    API_KEY: ClassVar[int] = 16
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: Sequence[ListedGroup] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 5),
        Field('error_code', 'int16', 0, 5),
        Field('groups', 'message', 0, 5, array=True, message=ListedGroup),
    )
