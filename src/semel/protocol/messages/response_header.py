"""response_header, v0-1. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ResponseHeader(Message):
    API_KEY: ClassVar[int] = -1
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    correlation_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('correlation_id', 'int32', 0, 1),
    )
