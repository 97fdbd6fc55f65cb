"""add_offsets_to_txn, v0-4. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnRequest(Message):
    API_KEY: ClassVar[int] = 25
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 0, 4),
        Field('producer_id', 'int64', 0, 4),
        Field('producer_epoch', 'int16', 0, 4),
        Field('group_id', 'string', 0, 4),
    )


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnResponse(Message):
    API_KEY: ClassVar[int] = 25
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 4),
        Field('error_code', 'int16', 0, 4),
    )
