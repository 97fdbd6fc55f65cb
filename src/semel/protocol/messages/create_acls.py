"""create_acls, v1-3. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class AclCreation(Message):
    API_KEY: ClassVar[int] = 30
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_type', 'int8', 1, 3),
        Field('resource_name', 'string', 1, 3),
        Field('resource_pattern_type', 'int8', 1, 3),
        Field('principal', 'string', 1, 3),
        Field('host', 'string', 1, 3),
        Field('operation', 'int8', 1, 3),
        Field('permission_type', 'int8', 1, 3),
    )


@dataclass(slots=True, kw_only=True)
class CreateAclsRequest(Message):
    API_KEY: ClassVar[int] = 30
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    creations: Sequence[AclCreation] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('creations', 'message', 1, 3, array=True, message=AclCreation),
    )


@dataclass(slots=True, kw_only=True)
class AclCreationResult(Message):
    API_KEY: ClassVar[int] = 30
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 1, 3),
        Field('error_message', 'string', 1, 3, nullable_first=1),
    )


@dataclass(slots=True, kw_only=True)
class CreateAclsResponse(Message):
    API_KEY: ClassVar[int] = 30
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    results: Sequence[AclCreationResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 3),
        Field('results', 'message', 1, 3, array=True, message=AclCreationResult),
    )
