"""write_txn_markers, v1-2. Made by tools/generate_messages.py; change that, not this."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from semel.protocol.message import Field, Message


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopic(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    name: str = ""
    partition_indexes: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 2),
        Field('partition_indexes', 'int32', 1, 2, array=True),
    )


@dataclass(slots=True, kw_only=True)
class WritableTxnMarker(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: int = 0
    transaction_version: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('producer_id', 'int64', 1, 2),
        Field('producer_epoch', 'int16', 1, 2),
        Field('transaction_result', 'bool', 1, 2),
        Field('topics', 'message', 1, 2, array=True, message=WritableTxnMarkerTopic),
        Field('coordinator_epoch', 'int32', 1, 2),
        Field('transaction_version', 'int8', 2, 2),
    )


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersRequest(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    markers: Sequence[WritableTxnMarker] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('markers', 'message', 1, 2, array=True, message=WritableTxnMarker),
    )


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    partition_index: int = 0
    error_code: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('partition_index', 'int32', 1, 2),
        Field('error_code', 'int16', 1, 2),
    )


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopicResult(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    name: str = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('name', 'string', 1, 2),
        Field('partitions', 'message', 1, 2, array=True, message=WritableTxnMarkerPartitionResult),
    )


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerResult(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    producer_id: int = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('producer_id', 'int64', 1, 2),
        Field('topics', 'message', 1, 2, array=True, message=WritableTxnMarkerTopicResult),
    )


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersResponse(Message):
    API_KEY: ClassVar[int] = 27
    FIRST: ClassVar[int] = 1
    LAST: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 1
    markers: Sequence[WritableTxnMarkerResult] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field('markers', 'message', 1, 2, array=True, message=WritableTxnMarkerResult),
    )
