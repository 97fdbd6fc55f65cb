"""describe_configs, v1-4. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResource(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: Sequence[str] | None = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resource_type', 'int8', 1, 4),
        Field('resource_name', 'string', 1, 4),
        Field('configuration_keys', 'string', 1, 4, nullable_first=1, array=True),
    )


@dataclass(slots=True, kw_only=True)
class DescribeConfigsRequest(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: bool = False
    include_documentation: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('resources', 'message', 1, 4, array=True, message=DescribeConfigsResource),
        Field('include_synonyms', 'bool', 1, 4),
        Field('include_documentation', 'bool', 3, 4),
    )


@dataclass(slots=True, kw_only=True)
class DescribeConfigsSynonym(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    name: str = ""
    value: str | None = ""
    source: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 4),
        Field('value', 'string', 1, 4, nullable_first=1),
        Field('source', 'int8', 1, 4),
    )


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResourceResult(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: int = 0
    documentation: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 4),
        Field('value', 'string', 1, 4, nullable_first=1),
        Field('read_only', 'bool', 1, 4),
        Field('config_source', 'int8', 1, 4),
        Field('is_sensitive', 'bool', 1, 4),
        Field('synonyms', 'message', 1, 4, array=True, message=DescribeConfigsSynonym),
        Field('config_type', 'int8', 3, 4),
        Field('documentation', 'string', 3, 4, nullable_first=3),
    )


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResult(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 1, 4),
        Field('error_message', 'string', 1, 4, nullable_first=1),
        Field('resource_type', 'int8', 1, 4),
        Field('resource_name', 'string', 1, 4),
        Field('configs', 'message', 1, 4, array=True, message=DescribeConfigsResourceResult),
    )


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResponse(Message):
    API_KEY: ClassVar[int] = 32
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 4
    throttle_time_ms: int = 0
    results: Sequence[DescribeConfigsResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 1, 4),
        Field('results', 'message', 1, 4, array=True, message=DescribeConfigsResult),
    )
