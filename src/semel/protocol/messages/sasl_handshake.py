"""sasl_handshake, v0-1. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest(Message):
    API_KEY: ClassVar[int] = 17
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 32768
    mechanism: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('mechanism', 'string', 0, 1),
    )


@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse(Message):
    API_KEY: ClassVar[int] = 17
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 32768
    error_code: int = 0
    mechanisms: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 1),
        Field('mechanisms', 'string', 0, 1, array=True),
    )
