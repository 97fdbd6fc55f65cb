"""request_header, v1-2. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class RequestHeader(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('request_api_key', 'int16', 1, 2),
        Field('request_api_version', 'int16', 1, 2),
        Field('correlation_id', 'int32', 1, 2),
        Field('client_id', 'legacy_string', 1, 2, nullable_first=1),
    )
