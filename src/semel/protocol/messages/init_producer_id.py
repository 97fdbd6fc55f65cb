"""init_producer_id, v0-6. Made by tools/generate_messages.py; change that, not this."""

from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class InitProducerIdRequest(Message):
    API_KEY: ClassVar[int] = 22
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 2
    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 0, 6, nullable_first=0),
        Field('transaction_timeout_ms', 'int32', 0, 6),
        Field('producer_id', 'int64', 3, 6),
        Field('producer_epoch', 'int16', 3, 6),
        Field('enable2_pc', 'bool', 6, 6),
        Field('keep_prepared_txn', 'bool', 6, 6),
    )


@dataclass(slots=True, kw_only=True)
class InitProducerIdResponse(Message):
    API_KEY: ClassVar[int] = 22
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int] = 2
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 6),
        Field('error_code', 'int16', 0, 6),
        Field('producer_id', 'int64', 0, 6),
        Field('producer_epoch', 'int16', 0, 6),
        Field('ongoing_txn_producer_id', 'int64', 6, 6),
        Field('ongoing_txn_producer_epoch', 'int16', 6, 6),
    )
