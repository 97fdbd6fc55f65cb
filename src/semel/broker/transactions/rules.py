"""The rules of a transaction, one by one: what a request may do in a state, and which epoch comes next. All pure.

Sources: KIP-98, KIP-360, KIP-588, KIP-890; each answer compared with Apache Kafka 4.3 in tests/differential.
"""

from __future__ import annotations

from dataclasses import replace

from semel.broker.transactions.types import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    PRODUCER_EPOCH_MAX,
    Producer,
    TransactionEntry,
    TransactionState,
)
from semel.protocol.error_codes import ErrorCode

S = TransactionState
Fail = ErrorCode


def for_client(code: ErrorCode) -> ErrorCode:
    """The answer to a client when a record could not be written: ask again, perhaps elsewhere."""
    match code:
        case (
            Fail.UNKNOWN_TOPIC_OR_PARTITION
            | Fail.NOT_ENOUGH_REPLICAS
            | Fail.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | Fail.REQUEST_TIMED_OUT
        ):
            return Fail.COORDINATOR_NOT_AVAILABLE
        # After a storage error the coordinator resigns, see `CoordinatorShell`.
        case Fail.NOT_LEADER_OR_FOLLOWER | Fail.KAFKA_STORAGE_ERROR:
            return Fail.NOT_COORDINATOR
        case Fail.MESSAGE_TOO_LARGE | Fail.RECORD_LIST_TOO_LARGE:
            return Fail.UNKNOWN_SERVER_ERROR
    return code


def is_own_id(entry: TransactionEntry, expected: Producer) -> bool:
    """Whether a recovering client's id is the current one, or the one before it whose epochs ran out."""
    exhausted = expected.epoch >= PRODUCER_EPOCH_MAX - 1
    return (
        entry.producer_epoch == NO_PRODUCER_EPOCH
        or expected.id == entry.producer_id
        or (expected.id == entry.previous_producer_id and exhausted)
    )


def with_next_epoch(
    entry: TransactionEntry, fresh: TransactionEntry, expected: Producer | None
) -> TransactionEntry | ErrorCode:
    """The next producer epoch; a retry of a recovery that succeeded gets the same one again."""
    bumped = entry.producer_epoch + 1
    if expected is None:
        return replace(fresh, producer_epoch=bumped, last_producer_epoch=NO_PRODUCER_EPOCH)
    believed = expected.epoch
    if entry.producer_epoch in (NO_PRODUCER_EPOCH, believed):
        return replace(fresh, producer_epoch=bumped, last_producer_epoch=entry.producer_epoch)
    # Its request was carried out and the answer was lost: the same answer again (KIP-360).
    if believed == entry.last_producer_epoch:
        return replace(fresh, producer_epoch=entry.producer_epoch, last_producer_epoch=entry.last_producer_epoch)
    return Fail.PRODUCER_FENCED


def is_overflow_retry(entry: TransactionEntry, producer: Producer) -> bool:
    """Whether an EndTxn repeats one that used up the last epoch and moved on to a new producer id (version 2)."""
    return (
        entry.bumps_epoch
        and entry.previous_producer_id == producer.id
        and producer.epoch == PRODUCER_EPOCH_MAX - 1
        and entry.producer_epoch == 0
    )


def is_retry(entry: TransactionEntry, producer: Producer) -> bool:
    """Whether an EndTxn is a repeat of one whose new producer epoch is already in place (version 2)."""
    bumped = entry.bumps_epoch and entry.producer_epoch == producer.epoch + 1
    return bumped or is_overflow_retry(entry, producer)


def is_valid_epoch(entry: TransactionEntry, producer: Producer) -> bool:
    """Whether this epoch may end a transaction of the entry, or repeat having done so."""
    retry = is_retry(entry, producer)
    # The epoch was raised with the decision, so only a repeat of that EndTxn can fit.
    if entry.bumps_epoch and entry.state.is_prepared:
        return retry
    if entry.bumps_epoch and entry.state.is_complete and retry:
        return True
    return producer.epoch == entry.producer_epoch


def decide(entry: TransactionEntry, *, commit: bool, retry: bool, client_version: int) -> ErrorCode:
    """What an EndTxn means in this state: NONE, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE."""
    newer = client_version >= EPOCH_BUMP_VERSION
    match entry.state:
        case S.ONGOING:
            return Fail.NONE
        case S.COMPLETE_COMMIT | S.COMPLETE_ABORT:
            same = commit == (entry.state is S.COMPLETE_COMMIT)
            repeats = same and (retry or not newer)
            # Version 2: a transaction that never got a partition can
            # be aborted, and the client goes on under the next epoch.
            return Fail.NONE if repeats or (newer and not retry and not commit) else Fail.INVALID_TXN_STATE
        case S.PREPARE_COMMIT | S.PREPARE_ABORT:
            same = commit == (entry.state is S.PREPARE_COMMIT)
            return Fail.CONCURRENT_TRANSACTIONS if same else Fail.INVALID_TXN_STATE
        case S.EMPTY:
            return Fail.NONE if newer and not commit else Fail.INVALID_TXN_STATE
    return Fail.INVALID_TXN_STATE


def starts_end(entry: TransactionEntry, *, retry: bool, client_version: int) -> bool:
    """Whether an accepted EndTxn changes anything, or repeats what is done."""
    return entry.state is S.ONGOING or (client_version >= EPOCH_BUMP_VERSION and not retry)
