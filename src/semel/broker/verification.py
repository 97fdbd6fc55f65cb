"""A transaction's first write to a partition is checked with its coordinator before it enters the log (KIP-890).

Without this a batch that arrives late, after its transaction ended, would open a transaction that nobody ends. The
token from `begin_verification` closes the window between asking and appending: a marker that comes in between takes
the token away, and the append is refused.

Keeps: T5 no partition has an open transaction that its coordinator does not know of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from semel.broker.transaction_types import Producer, TopicPartition
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

ADD_PARTITIONS_VERSION = 5


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
    partitions: Iterable[TopicPartition],
    support: Support,
) -> Mapping[TopicPartition, ErrorCode]:
    """Ask the coordinator whether these partitions are part of the transaction, or to make them so."""
    wanted = list(partitions)
    leader = broker.transactions.leader_of(transactional_id)
    if leader is None:
        return dict.fromkeys(wanted, ErrorCode.NOT_COORDINATOR)
    request = _request(transactional_id, producer, wanted, verify_only=support is not Support.IMPLICIT_ADD)
    try:
        response = await broker.cluster.links.ask(
            broker.id, leader, request, AddPartitionsToTxnResponse, ADD_PARTITIONS_VERSION
        )
    except ConnectionFailure:
        return dict.fromkeys(wanted, ErrorCode.NETWORK_EXCEPTION)
    found = {
        (topic.name, row.partition_index): ErrorCode(row.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for row in topic.results_by_partition
    }
    top = ErrorCode(response.error_code)
    return {each: _for_writer(found.get(each, top or ErrorCode.NETWORK_EXCEPTION)) for each in wanted}


def _for_writer(code: ErrorCode) -> ErrorCode:
    """Who writes under an old epoch is told so in the words of the partition, not of the coordinator."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code


def _request(
    transactional_id: str, producer: Producer, partitions: list[TopicPartition], *, verify_only: bool
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
    """What a producer is told when its first write could not be verified, in words it understands."""
    if code in _TRY_AGAIN:
        if support is Support.IMPLICIT_ADD and code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return code, "the last transaction is still being completed"
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ErrorCode.NOT_ENOUGH_REPLICAS, message
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is Support.DEFAULT_ERRORS:
        code = ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        return code, "the partition was not added to the transaction"
    return code, f"the transaction could not be verified: {code.name}"
