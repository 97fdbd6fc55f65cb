"""FindCoordinator (key 10, v0-6): which broker coordinates a group or a transactional id.

Differs:  docs/DIFFERENCES.md#k10
Versions: v1 key type; v3 first flexible; v4 many keys at once; v5 and v6 add error codes only.
Sources:  KIP-98, KIP-699.
"""

from __future__ import annotations

from semel.broker.controller.topics import create_internal_topic
from semel.broker.metadata.cluster_state import GROUP_TOPIC, OFFLINE, TRANSACTION_TOPIC
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.coordinator_partition import coordinator_partition
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

TOPICS = (GROUP_TOPIC, TRANSACTION_TOPIC)  # by key type


def refuse(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
    """Answer with this error at the top and for every key."""
    rows = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in request.coordinator_keys]
    return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1, coordinators=rows)


@api(FindCoordinatorRequest, FindCoordinatorResponse, first=0, last=6, refuse=refuse)
async def answer(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Create the coordinator's topic when it is not there yet, then name the leader of the key's partition."""
    if context.version >= 4:
        rows = []
        for number, key in enumerate(request.coordinator_keys):
            rows.append(_find(context, request.key_type, key))
            await context.pause_after(number, key)
        return FindCoordinatorResponse(coordinators=rows)
    row = _find(context, request.key_type, request.key)
    # Versions 1 to 3 always have a text, "NONE" included, as Apache Kafka sends it.
    message = row.error_message or ErrorCode(row.error_code).name
    return FindCoordinatorResponse(
        error_code=row.error_code, error_message=message, node_id=row.node_id, host=row.host, port=row.port
    )


def _find(context: Context, key_type: int, key: str) -> Coordinator:
    # Type 2, share groups (KIP-932), has no coordinator here.
    if not 0 <= key_type < len(TOPICS):
        message = f"There is no coordinator of type {key_type} here."
        return Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    broker = context.broker
    try:
        create_internal_topic(broker, TOPICS[key_type])
    except Refused as refused:
        return _not_available(key, refused.summary)
    topic = broker.state.topics.get(TOPICS[key_type])
    # The controller has made it, but this broker has not heard of it yet.
    if topic is None:
        return _not_available(key, "the topic of the coordinators is being created")
    # Every broker computes the same partition from the key, so any of them can answer.
    leader = topic.partitions[coordinator_partition(key, len(topic.partitions))].leader
    node = next((node for node in broker.state.nodes if node.id == leader and leader != OFFLINE), None)
    if node is None:
        return _not_available(key, None)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)


def _not_available(key: str, message: str | None) -> Coordinator:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)
