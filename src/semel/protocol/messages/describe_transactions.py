"""describe_transactions, v0-0. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsRequest(Message):
    API_KEY: ClassVar[int] = 65
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    transactional_ids: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_ids', 'string', 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class TopicData(Message):
    API_KEY: ClassVar[int] = 65
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    topic: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('topic', 'string', 0, 0),
        Field('partitions', 'int32', 0, 0, array=True),
    )


@dataclass(slots=True, kw_only=True)
class TransactionState(Message):
    API_KEY: ClassVar[int] = 65
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Sequence[TopicData] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('error_code', 'int16', 0, 0),
        Field('transactional_id', 'string', 0, 0),
        Field('transaction_state', 'string', 0, 0),
        Field('transaction_timeout_ms', 'int32', 0, 0),
        Field('transaction_start_time_ms', 'int64', 0, 0),
        Field('producer_id', 'int64', 0, 0),
        Field('producer_epoch', 'int16', 0, 0),
        Field('topics', 'message', 0, 0, array=True, message=TopicData),
    )


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsResponse(Message):
    API_KEY: ClassVar[int] = 65
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0
    throttle_time_ms: int = 0
    transaction_states: Sequence[TransactionState] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 0),
        Field('transaction_states', 'message', 0, 0, array=True, message=TransactionState),
    )
