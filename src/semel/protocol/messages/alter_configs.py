"""alter_configs, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class AlterableConfig(Message):
    API_KEY: ClassVar[int] = 33
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    name: str = ""
    value: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 2),
        Field('value', 'string', 0, 2, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource(Message):
    API_KEY: ClassVar[int] = 33
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_type', 'int8', 0, 2),
        Field('resource_name', 'string', 0, 2),
        Field('configs', 'message', 0, 2, array=True, message=AlterableConfig),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsRequest(Message):
    API_KEY: ClassVar[int] = 33
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resources', 'message', 0, 2, array=True, message=AlterConfigsResource),
        Field('validate_only', 'bool', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse(Message):
    API_KEY: ClassVar[int] = 33
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 0, 2, nullable_first=0),
        Field('resource_type', 'int8', 0, 2),
        Field('resource_name', 'string', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsResponse(Message):
    API_KEY: ClassVar[int] = 33
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('responses', 'message', 0, 2, array=True, message=AlterConfigsResourceResponse),
    )
