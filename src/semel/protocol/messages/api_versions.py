"""api_versions, v0-4. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ApiVersionsRequest(Message):
    API_KEY: ClassVar[int] = 18
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    client_software_name: str = ""
    client_software_version: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('client_software_name', 'string', 3, 4),
        Field('client_software_version', 'string', 3, 4),
    )


@dataclass(slots=True, kw_only=True)
class ApiVersion(Message):
    API_KEY: ClassVar[int] = 18
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    api_key: int = 0
    min_version: int = 0
    max_version: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('api_key', 'int16', 0, 4),
        Field('min_version', 'int16', 0, 4),
        Field('max_version', 'int16', 0, 4),
    )


@dataclass(slots=True, kw_only=True)
class SupportedFeatureKey(Message):
    API_KEY: ClassVar[int] = 18
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    min_version: int = 0
    max_version: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 3, 4),
        Field('min_version', 'int16', 3, 4),
        Field('max_version', 'int16', 3, 4),
    )


@dataclass(slots=True, kw_only=True)
class FinalizedFeatureKey(Message):
    API_KEY: ClassVar[int] = 18
    FIRST: ClassVar[int] = 3
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 3, 4),
        Field('max_version_level', 'int16', 3, 4),
        Field('min_version_level', 'int16', 3, 4),
    )


@dataclass(slots=True, kw_only=True)
class ApiVersionsResponse(Message):
    API_KEY: ClassVar[int] = 18
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    error_code: int = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: int = 0
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 4),
        Field('api_keys', 'message', 0, 4, array=True, message=ApiVersion),
        Field('throttle_time_ms', 'int32', 1, 4),
        Field('supported_features', 'message', 3, 4, tag=0, tagged_first=3, array=True, message=SupportedFeatureKey),
        Field('finalized_features_epoch', 'int64', 3, 4, tag=1, tagged_first=3),
        Field('finalized_features', 'message', 3, 4, tag=2, tagged_first=3, array=True, message=FinalizedFeatureKey),
        Field('zk_migration_ready', 'bool', 3, 4, tag=3, tagged_first=3),
    )
