"""incremental_alter_configs, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class AlterableConfig(Message):
    API_KEY: ClassVar[int] = 44
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    name: str = ""
    config_operation: int = 0
    value: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 1),
        Field('config_operation', 'int8', 0, 1),
        Field('value', 'string', 0, 1, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource(Message):
    API_KEY: ClassVar[int] = 44
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_type', 'int8', 0, 1),
        Field('resource_name', 'string', 0, 1),
        Field('configs', 'message', 0, 1, array=True, message=AlterableConfig),
    )


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsRequest(Message):
    API_KEY: ClassVar[int] = 44
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resources', 'message', 0, 1, array=True, message=AlterConfigsResource),
        Field('validate_only', 'bool', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse(Message):
    API_KEY: ClassVar[int] = 44
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
        Field('resource_type', 'int8', 0, 1),
        Field('resource_name', 'string', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResponse(Message):
    API_KEY: ClassVar[int] = 44
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('responses', 'message', 0, 1, array=True, message=AlterConfigsResourceResponse),
    )
