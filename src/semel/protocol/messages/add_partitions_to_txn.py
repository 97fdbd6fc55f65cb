"""add_partitions_to_txn, v0-5. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopic(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    partitions: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 5),
        Field('partitions', 'int32', 0, 5, array=True),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTransaction(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 4, 5),
        Field('producer_id', 'int64', 4, 5),
        Field('producer_epoch', 'int16', 4, 5),
        Field('verify_only', 'bool', 4, 5),
        Field('topics', 'message', 4, 5, array=True, message=AddPartitionsToTxnTopic),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnRequest(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    transactions: Sequence[AddPartitionsToTxnTransaction] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactions', 'message', 4, 5, array=True, message=AddPartitionsToTxnTransaction),
        Field('v3_and_below_transactional_id', 'string', 0, 3),
        Field('v3_and_below_producer_id', 'int64', 0, 3),
        Field('v3_and_below_producer_epoch', 'int16', 0, 3),
        Field('v3_and_below_topics', 'message', 0, 3, array=True, message=AddPartitionsToTxnTopic),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    partition_index: int = 0
    partition_error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 0, 5),
        Field('partition_error_code', 'int16', 0, 5),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    name: str = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 0, 5),
        Field('results_by_partition', 'message', 0, 5, array=True, message=AddPartitionsToTxnPartitionResult),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResult(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 4
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 4
    transactional_id: str = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('transactional_id', 'string', 4, 5),
        Field('topic_results', 'message', 4, 5, array=True, message=AddPartitionsToTxnTopicResult),
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResponse(Message):
    API_KEY: ClassVar[int] = 24
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = ()
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('throttle_time_ms', 'int32', 0, 5),
        Field('error_code', 'int16', 4, 5),
        Field('results_by_transaction', 'message', 4, 5, array=True, message=AddPartitionsToTxnResult),
        Field('results_by_topic_v3_and_below', 'message', 0, 3, array=True, message=AddPartitionsToTxnTopicResult),
    )
