"""list_transactions, v0-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class ListTransactionsRequest(Message):
    API_KEY: ClassVar[int] = 66
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int] = ()
    duration_filter: int = -1
    transactional_id_pattern: str | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('state_filters', 'string', 0, 2, array=True),
        Field('producer_id_filters', 'int64', 0, 2, array=True),
        Field('duration_filter', 'int64', 1, 2),
        Field('transactional_id_pattern', 'string', 2, 2, nullable_first=2),
    )


@dataclass(slots=True, kw_only=True)
class TransactionState(Message):
    API_KEY: ClassVar[int] = 66
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 0, 2),
        Field('producer_id', 'int64', 0, 2),
        Field('transaction_state', 'string', 0, 2),
    )


@dataclass(slots=True, kw_only=True)
class ListTransactionsResponse(Message):
    API_KEY: ClassVar[int] = 66
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: Sequence[str] = ()
    transaction_states: Sequence[TransactionState] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 2),
        Field('error_code', 'int16', 0, 2),
        Field('unknown_state_filters', 'string', 0, 2, array=True),
        Field('transaction_states', 'message', 0, 2, array=True, message=TransactionState),
    )
