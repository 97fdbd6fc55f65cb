"""AddPartitionsToTxn (key 24, v0-5): make partitions part of a transaction, or check that they are.

Keeps:    T1 one live producer epoch per transactional id; T4 a retried request has the effect of one.
Differs:  docs/DIFFERENCES.md#k24
Versions: v2 PRODUCER_FENCED; v3 first flexible; v4 many transactions at once, sent by brokers; v5 abortable errors.
Sources:  KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.broker.api.k22_init_producer_id import older_fencing_code
from semel.broker.controller.topics import has_partition
from semel.broker.metadata.acls import Operation, Resource
from semel.broker.metadata.cluster_state import INTERNAL_TOPICS, PartitionKey
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.transactions.types import Producer
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)


def refuse(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Answer with this error for every partition."""
    topics = request.v3_and_below_topics
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_topic_v3_and_below=_results(topics, dict.fromkeys(_partitions(topics), code)),
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=row.transactional_id,
                topic_results=_results(row.topics, dict.fromkeys(_partitions(row.topics), code)),
            )
            for row in request.transactions
        ],
    )


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[PartitionKey]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[PartitionKey, ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


@api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Ask the coordinator for each transaction."""
    # Version 4 is spoken by brokers alone: it carries `verify_only`, and needs CLUSTER_ACTION (KIP-890).
    if context.version >= 4:
        rows = [
            AddPartitionsToTxnResult(
                transactional_id=row.transactional_id, topic_results=_results(row.topics, await _add(context, row))
            )
            for row in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=rows)
    single = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    codes = await _add(context, single)
    # Only here: brokers, who send version 4, know all codes.
    older = {each: older_fencing_code(code, context.version, 2) for each, code in codes.items()}
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(single.topics, older))


async def _add(context: Context, row: AddPartitionsToTxnTransaction) -> Mapping[PartitionKey, ErrorCode]:
    partitions = _partitions(row.topics)
    codes = {each: _error_code(context, *each) for each in partitions}
    if any(codes.values()):
        # All or none: the client adds them again when it knows which one is wrong.
        return {each: code or ErrorCode.OPERATION_NOT_ATTEMPTED for each, code in codes.items()}
    coordinator = context.broker.transactions.find(row.transactional_id)
    if isinstance(coordinator, ErrorCode):
        return dict.fromkeys(partitions, coordinator)
    producer = Producer(row.producer_id, row.producer_epoch)
    # Nothing is written for it, so it is answered from memory.
    if row.verify_only:
        return coordinator.core.verify_partitions(row.transactional_id, producer, partitions)
    result = await coordinator.ask(
        lambda core, token, now_ms: core.add_partitions(
            token, row.transactional_id, producer, frozenset(partitions), now_ms
        )
    )
    return dict.fromkeys(partitions, result.error_code)


def _error_code(context: Context, topic: str, index: int) -> ErrorCode:
    # Since v4 the brokers alone ask, for producers that have proved their rights to them.
    is_client = context.version < 4
    if is_client and (topic in INTERNAL_TOPICS or not context.may(Operation.WRITE, Resource.TOPIC, topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if has_partition(context.broker.state, topic, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
