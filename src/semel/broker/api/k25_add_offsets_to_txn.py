"""AddOffsetsToTxn (key 25, v0-4): make a group's committed offsets part of a transaction.

Differs:  docs/DIFFERENCES.md#k25
Versions: v2 PRODUCER_FENCED; v3 first flexible; v4 abortable errors.
Sources:  KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

from semel.broker.api.k22_init_producer_id import older_fencing_code
from semel.broker.controller.topics import create_internal_topic
from semel.broker.metadata.cluster_state import GROUP_TOPIC
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.broker.transactions.types import Producer
from semel.protocol.coordinator_partition import coordinator_partition
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def refuse(_: AddOffsetsToTxnRequest, code: ErrorCode) -> AddOffsetsToTxnResponse:
    """Answer with this error."""
    return AddOffsetsToTxnResponse(error_code=code)


@api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, first=0, last=4, refuse=refuse)
async def answer(context: Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add the partition of `__consumer_offsets` that belongs to the group."""
    coordinator = context.broker.transactions.find(request.transactional_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    # The transaction must name the partition before anything is written there, even if no group exists yet.
    try:
        create_internal_topic(context.broker, GROUP_TOPIC)
    except Refused:
        # As FindCoordinator says it: clients ask again, which they would not after the controller's own errors.
        return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    topic = context.broker.state.topics.get(GROUP_TOPIC)
    # The controller has made it, but this broker has not heard of it yet.
    if topic is None:
        return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    # Where TxnOffsetCommit will write, and so where the marker has to go.
    index = coordinator_partition(request.group_id, len(topic.partitions))
    producer = Producer(request.producer_id, request.producer_epoch)
    result = await coordinator.ask(
        lambda core, token, now_ms: core.add_partitions(
            token, request.transactional_id, producer, frozenset({(GROUP_TOPIC, index)}), now_ms
        )
    )
    return AddOffsetsToTxnResponse(error_code=older_fencing_code(result.error_code, context.version, 2))
