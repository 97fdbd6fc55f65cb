"""What goes into and comes out of the transaction coordinator: entries, requests' answers, effects.

These are the coordinator's own values, free of wire versions. A request gets a token; its answer comes back in an
`Answer` with that token, exactly once, after the record it depends on is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from semel.broker.metadata.cluster_state import PartitionKey
from semel.protocol.error_codes import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP_MS = -1
PRODUCER_EPOCH_MAX = 2**15 - 1
EPOCH_BUMP_VERSION = 2  # from this version of the protocol on, every transaction ends with a new producer epoch


class Producer(NamedTuple):
    """A producer id with the epoch of its current owner."""

    id: int
    epoch: int


class TransactionState(IntEnum):
    """Where a transactional id stands; the numbers are those in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """As Kafka's tools print it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether every marker is written."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether a transactional id that was idle for long may be forgotten here."""
        return self is TransactionState.EMPTY or self.is_complete


# The states from which each state may be entered.
ENTERED_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # With version 2 a client may abort a transaction that never got a partition: it wants the next producer epoch.
    TransactionState.PREPARE_ABORT: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEntry:
    """One transactional id as its last durable record says."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    # The id before this one, by which a retry across an exhausted epoch is recognised.
    previous_producer_id: int = NO_PRODUCER_ID
    # Set while a transaction ends with the last epoch: the id that its client goes on with.
    next_producer_id: int = NO_PRODUCER_ID
    # The epoch before the last bump: a client that still names it has lost an answer (KIP-360).
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[PartitionKey] = frozenset()
    started_ms: int = NO_TIMESTAMP_MS
    updated_ms: int = NO_TIMESTAMP_MS
    # The transaction version of the client that ended the last transaction; 0 until one has ended.
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether a client may not get another producer epoch; the last one is kept for fencing."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def bumps_epoch(self) -> bool:
        """Whether its client speaks a version in which every transaction ends with a new producer epoch."""
        return self.client_version >= EPOCH_BUMP_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Broker settings of transactions, with the name Kafka gives each."""

    timeout_ms_max: int = 900_000  # transaction.max.timeout.ms
    id_expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms
    abort_interval_ms: int = 1_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    version: int = 2  # the finalized feature transaction.version


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """InitProducerId and EndTxn: the producer id and epoch that the client goes on with."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAnswer:
    """AddPartitionsToTxn and AddOffsetsToTxn: one outcome for all partitions."""

    error_code: ErrorCode = ErrorCode.NONE


TransactionAnswer = ProducerAnswer | AddAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Send this to the request with this token."""

    token: int
    response: TransactionAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecord:
    """Append to this coordinator's partition of `__transaction_state`; a value of None is a tombstone."""

    append_token: int
    transactional_id: str
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """Write the end of a transaction to each partition; report each with `marker_written`."""

    transactional_id: str
    producer: Producer
    commit: bool
    partitions: frozenset[PartitionKey]
    transaction_version: int


Effect = Answer | AppendRecord | WriteMarkers
