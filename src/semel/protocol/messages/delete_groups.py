"""delete_groups, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest(Message):
    API_KEY: ClassVar[int] = 42
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    groups_names: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('groups_names', 'string', 0, 2, array=True),
    )


@dataclass(slots=True, kw_only=True)
class DeletableGroupResult(Message):
    API_KEY: ClassVar[int] = 42
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    group_id: str = ""
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('group_id', 'string', 0, 2),
        Field('error_code', 'int16', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse(Message):
    API_KEY: ClassVar[int] = 42
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    results: Sequence[DeletableGroupResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('results', 'message', 0, 2, array=True, message=DeletableGroupResult),
    )
