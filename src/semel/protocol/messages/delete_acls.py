"""delete_acls, v1-3. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilter(Message):
    API_KEY: ClassVar[int] = 31
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_type_filter', 'int8', 1, 3),
        Field('resource_name_filter', 'string', 1, 3, nullable_first=1),
        Field('pattern_type_filter', 'int8', 1, 3),
        Field('principal_filter', 'string', 1, 3, nullable_first=1),
        Field('host_filter', 'string', 1, 3, nullable_first=1),
        Field('operation', 'int8', 1, 3),
        Field('permission_type', 'int8', 1, 3),
    )


@dataclass(slots=True, kw_only=True)
class DeleteAclsRequest(Message):
    API_KEY: ClassVar[int] = 31
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    filters: Sequence[DeleteAclsFilter] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('filters', 'message', 1, 3, array=True, message=DeleteAclsFilter),
    )


@dataclass(slots=True, kw_only=True)
class DeleteAclsMatchingAcl(Message):
    API_KEY: ClassVar[int] = 31
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 1, 3),
        Field('error_message', 'string', 1, 3, nullable_first=1),
        Field('resource_type', 'int8', 1, 3),
        Field('resource_name', 'string', 1, 3),
        Field('pattern_type', 'int8', 1, 3),
        Field('principal', 'string', 1, 3),
        Field('host', 'string', 1, 3),
        Field('operation', 'int8', 1, 3),
        Field('permission_type', 'int8', 1, 3),
    )


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilterResult(Message):
    API_KEY: ClassVar[int] = 31
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    matching_acls: Sequence[DeleteAclsMatchingAcl] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 1, 3),
        Field('error_message', 'string', 1, 3, nullable_first=1),
        Field('matching_acls', 'message', 1, 3, array=True, message=DeleteAclsMatchingAcl),
    )


@dataclass(slots=True, kw_only=True)
class DeleteAclsResponse(Message):
    API_KEY: ClassVar[int] = 31
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    filter_results: Sequence[DeleteAclsFilterResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 3),
        Field('filter_results', 'message', 1, 3, array=True, message=DeleteAclsFilterResult),
    )
