"""Transaction entries as records of `__transaction_state`, in Apache Kafka's own format so that its tools read them.

Sources: TransactionLogKey v0 and TransactionLogValue v0-v1 (KIP-98, KIP-915, KIP-890). Version 1 is
         written always, since only it has the fields of KIP-890; both are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.transactions.types import NO_PRODUCER_ID, TransactionEntry, TransactionState
from semel.errors import CorruptBatchError, ProtocolError
from semel.protocol.message import Field, Message, decode, encode_bytes

_VERSION = Struct(">h")


@dataclass(slots=True, kw_only=True)
class _Key(Message):
    transactional_id: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("transactional_id", "string", 0, 0),)


@dataclass(slots=True, kw_only=True)
class _Partitions(Message):
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    topic: str = ""
    partition_ids: Sequence[int] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", 0, 1),
        Field("partition_ids", "int32", 0, 1, array=True),
    )


@dataclass(slots=True, kw_only=True)
class _Value(Message):
    FIRST: ClassVar[int] = 0
    LAST: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 1
    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    timeout_ms: int = 0
    status: int = 0
    partitions: Sequence[_Partitions] | None = ()
    updated_ms: int = 0
    started_ms: int = 0
    client_version: int = 0
    last_producer_epoch: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", 0, 1),
        Field("previous_producer_id", "int64", 1, 1, tag=0, tagged_first=1),
        Field("next_producer_id", "int64", 1, 1, tag=1, tagged_first=1),
        Field("producer_epoch", "int16", 0, 1),
        Field("timeout_ms", "int32", 0, 1),
        Field("status", "int8", 0, 1),
        Field("partitions", "message", 0, 1, nullable_first=0, array=True, message=_Partitions),
        Field("updated_ms", "int64", 0, 1),
        Field("started_ms", "int64", 0, 1),
        Field("client_version", "int16", 1, 1, tag=2, tagged_first=1),
        # Apache Kafka keeps the last producer epoch in memory only; here a retry across a restart finds it again.
        Field("last_producer_epoch", "int16", 1, 1, tag=10_000, tagged_first=1),
    )


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return _VERSION.pack(0) + encode_bytes(_Key(transactional_id=transactional_id), 0)


def decode_key(data: bytes) -> str:
    """Read the transactional id from a key."""
    return decode(_Key, _body(data, "key", versions=(0,))[1], 0).transactional_id


def encode_value(entry: TransactionEntry) -> bytes:
    """The value of an entry."""
    topics: dict[str, list[int]] = {}
    # Sorted, so that equal entries are equal bytes: a set has another order in every process.
    for topic, partition in sorted(entry.partitions):
        topics.setdefault(topic, []).append(partition)
    value = _Value(
        producer_id=entry.producer_id,
        previous_producer_id=entry.previous_producer_id,
        next_producer_id=entry.next_producer_id,
        producer_epoch=entry.producer_epoch,
        timeout_ms=entry.timeout_ms,
        status=entry.state,
        # Apache Kafka writes null for a transaction without partitions only in state Empty.
        partitions=(
            None
            if entry.state is TransactionState.EMPTY
            else [_Partitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
        ),
        updated_ms=entry.updated_ms,
        started_ms=entry.started_ms,
        client_version=entry.client_version,
        last_producer_epoch=entry.last_producer_epoch,
    )
    # Version 1 always: only it has room for what KIP-890 needs.
    return _VERSION.pack(1) + encode_bytes(value, 1)


def decode_value(transactional_id: str, data: bytes) -> TransactionEntry:
    """Read an entry back; CorruptBatchError when it makes no sense."""
    version, body = _body(data, "value", versions=(0, 1))
    try:
        value = decode(_Value, body, version)
        state = TransactionState(value.status)
    except (ProtocolError, ValueError) as error:
        raise CorruptBatchError(f"the state of transactional id {transactional_id!r} makes no sense: {error}") from None
    return TransactionEntry(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id if value.next_producer_id is not None else NO_PRODUCER_ID,
        last_producer_epoch=value.last_producer_epoch,
        timeout_ms=value.timeout_ms,
        state=state,
        partitions=frozenset(_flat(value.partitions or ())),
        started_ms=value.started_ms,
        updated_ms=value.updated_ms,
        client_version=value.client_version,
    )


def _flat(topics: Sequence[_Partitions]) -> list[PartitionKey]:
    return [(row.topic, partition) for row in topics for partition in row.partition_ids]


def _body(data: bytes, what: str, versions: tuple[int, ...]) -> tuple[int, bytes]:
    version = _VERSION.unpack_from(data)[0] if len(data) >= _VERSION.size else None
    if version not in versions:
        raise CorruptBatchError(f"a transaction {what} of version {version} is unknown")
    return version, data[_VERSION.size :]
