"""update_features, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class FeatureUpdateKey(Message):
    API_KEY: ClassVar[int] = 57
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    feature: str = ""
    max_version_level: int = 0
    upgrade_type: int = 1
    allow_downgrade: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('feature', 'string', 0, 2),
        Field('max_version_level', 'int16', 0, 2),
        Field('upgrade_type', 'int8', 1, 2),
        Field('allow_downgrade', 'bool', 0, 0),
    )


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesRequest(Message):
    API_KEY: ClassVar[int] = 57
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    timeout_ms: int = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('timeout_ms', 'int32', 0, 2),
        Field('feature_updates', 'message', 0, 2, array=True, message=FeatureUpdateKey),
        Field('validate_only', 'bool', 1, 2),
    )


@dataclass(slots=True, kw_only=True)
class UpdatableFeatureResult(Message):
    API_KEY: ClassVar[int] = 57
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0
    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('feature', 'string', 0, 1),
        Field('error_code', 'int16', 0, 1),
        Field('error_message', 'string', 0, 1, nullable_first=0),
    )


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesResponse(Message):
    API_KEY: ClassVar[int] = 57
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: Sequence[UpdatableFeatureResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 0, 2, nullable_first=0),
        Field('results', 'message', 0, 1, array=True, message=UpdatableFeatureResult),
    )
