"""end_txn, v0-5. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class EndTxnRequest(Message):
    API_KEY: ClassVar[int] = 26
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 0, 5),
        Field('producer_id', 'int64', 0, 5),
        Field('producer_epoch', 'int16', 0, 5),
        Field('committed', 'bool', 0, 5),
    )


@dataclass(slots=True, kw_only=True)
class EndTxnResponse(Message):
    API_KEY: ClassVar[int] = 26
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 5),
        Field('error_code', 'int16', 0, 5),
        Field('producer_id', 'int64', 5, 5),
        Field('producer_epoch', 'int16', 5, 5),
    )
