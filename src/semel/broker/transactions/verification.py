"""A transaction's first write to a partition is checked with its coordinator before it enters the log (KIP-890).

Without this a batch that arrives late, after its transaction ended, would open a transaction that nobody ends. The
token from `begin_verification` closes the window between asking and appending: a marker that comes in between takes
the token away, and the append is refused.

A producer that begins again right after a commit, or writes to the leaders of several partitions at once, finds its
coordinator busy nearly always, for the few milliseconds that a record takes to reach all replicas. The broker asks
again until then: a producer that gets CONCURRENT_TRANSACTIONS backs off for much longer (100 ms in Java).

Keeps: T5 no partition has an open transaction that its coordinator does not know of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from semel.broker.metadata.cluster_state import PartitionKey
from semel.broker.transactions.types import Producer
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

# Version 4 can ask without adding, version 5 belongs to transactions version 2.
ADD_PARTITIONS_VERSION = 5
# Apache Kafka asks every 20 ms for 100 ms; three brokers that share one core may need longer.
BUSY_RETRY_MS = 2.0
BUSY_RETRY_MS_MAX = 5.0
BUSY_MS_MAX = 1000.0


class Support(IntEnum):
    """What the client that writes understands."""

    DEFAULT_ERRORS = 0
    ABORTABLE_ERRORS = 1
    IMPLICIT_ADD = 2


_TRY_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


async def verify(
    broker: Broker,
    transactional_id: str,
    producer: Producer,
    begin: Callable[[], Sequence[PartitionKey]],
    support: Support,
) -> Mapping[PartitionKey, ErrorCode]:
    """Ask the coordinator whether partitions are part of the transaction, or to make them so.

    `begin` takes a token for each partition that needs one and names these partitions. It is called again before every
    further question, since the marker that ends the last transaction takes the tokens away.
    """
    clock = broker.world.clock
    deadline_ms = clock.monotonic_ms() + BUSY_MS_MAX
    wait_ms = BUSY_RETRY_MS
    while True:
        codes = await _ask(broker, transactional_id, producer, begin(), support)
        # An older client has waited for its AddPartitionsToTxn, so it does not find the coordinator busy with it.
        is_busy = support is Support.IMPLICIT_ADD and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
        if not is_busy or clock.monotonic_ms() + wait_ms > deadline_ms:
            return codes
        await clock.sleep_ms(wait_ms)
        wait_ms = min(wait_ms * 2, BUSY_RETRY_MS_MAX)


async def _ask(
    broker: Broker, transactional_id: str, producer: Producer, wanted: Sequence[PartitionKey], support: Support
) -> Mapping[PartitionKey, ErrorCode]:
    if not wanted:
        return {}
    leader = broker.transactions.leader_of(transactional_id)
    if leader is None:
        return dict.fromkeys(wanted, ErrorCode.NOT_COORDINATOR)
    request = _request(transactional_id, producer, wanted, verify_only=support is not Support.IMPLICIT_ADD)
    try:
        response = await broker.cluster.links.ask(
            broker.id, leader, request, AddPartitionsToTxnResponse, ADD_PARTITIONS_VERSION
        )
    # The question may have arrived, and the partition may have been added. Asking again does no harm (T4).
    except ConnectionFailure:
        return dict.fromkeys(wanted, ErrorCode.NETWORK_EXCEPTION)
    found = {
        (topic.name, row.partition_index): ErrorCode(row.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for row in topic.results_by_partition
    }
    top = ErrorCode(response.error_code)
    # A partition without an answer is treated as a lost answer: the producer tries again.
    return {each: _for_writer(found.get(each, top or ErrorCode.NETWORK_EXCEPTION)) for each in wanted}


def _for_writer(code: ErrorCode) -> ErrorCode:
    """A write under an old epoch gets the error code of a partition, not that of a coordinator."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _request(
    transactional_id: str, producer: Producer, partitions: Sequence[PartitionKey], *, verify_only: bool
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def error_for_producer(code: ErrorCode, support: Support) -> tuple[ErrorCode, str]:
    """The error that a producer gets when its first write could not be verified, as its version knows it."""
    if code in _TRY_AGAIN:
        if support is Support.IMPLICIT_ADD and code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return code, "the last transaction is still being completed"
        # A code that every producer retries; older ones know none that says more. Apache Kafka answers the same.
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ErrorCode.NOT_ENOUGH_REPLICAS, message
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is Support.DEFAULT_ERRORS:
        # Clients from before KIP-890 do not know TRANSACTION_ABORTABLE.
        code = ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        return code, "the partition was not added to the transaction"
    return code, f"the transaction could not be verified: {code.name}"
