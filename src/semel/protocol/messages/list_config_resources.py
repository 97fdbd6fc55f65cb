"""list_config_resources, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesRequest(Message):
    API_KEY: ClassVar[int] = 74
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    resource_types: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_types', 'int8', 1, 1, array=True),
    )


@dataclass(slots=True, kw_only=True)
class ConfigResource(Message):
    API_KEY: ClassVar[int] = 74
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    resource_name: str = ""
    resource_type: int = 16
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_name', 'string', 0, 1),
        Field('resource_type', 'int8', 1, 1),
    )


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesResponse(Message):
    API_KEY: ClassVar[int] = 74
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: Sequence[ConfigResource] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 1),
        Field('error_code', 'int16', 0, 1),
        Field('config_resources', 'message', 0, 1, array=True, message=ConfigResource),
    )
