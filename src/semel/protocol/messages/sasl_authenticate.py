"""sasl_authenticate, v0-2. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateRequest(Message):
    API_KEY: ClassVar[int] = 36
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    auth_bytes: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('auth_bytes', 'bytes', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateResponse(Message):
    API_KEY: ClassVar[int] = 36
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 2),
        Field('error_message', 'string', 0, 2, nullable_first=0),
        Field('auth_bytes', 'bytes', 0, 2),
        Field('session_lifetime_ms', 'int64', 1, 2),
    )
