"""DescribeQuorum (key 55, v0-2): who keeps the metadata log, and how far it is.

There is one controller and one copy of the log, so the quorum has one voter: the broker that clients see as the
controller.

Differs:  docs/DIFFERENCES.md#k55
Versions: v0 first flexible; v1 times of the last fetch; v2 error messages, directories and listeners.
Sources:  KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

METADATA_TOPIC = "__cluster_metadata"
LISTENER_NAME = "CONTROLLER"


def refuse(_: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
    """Answer with this error and no topics."""
    return DescribeQuorumResponse(error_code=code, error_message=None)


@api(DescribeQuorumRequest, DescribeQuorumResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the one partition of the metadata log; every other partition is unknown."""
    asked = [(topic.topic_name, row.partition_index) for topic in request.topics for row in topic.partitions]
    if asked != [(METADATA_TOPIC, 0)] or len(request.topics) != 1:
        return _unknown(request)
    # From the controller itself: a broker that is cut off must not describe an old quorum.
    state = context.broker.controller.state
    now_ms = context.broker.world.clock.wall_ms()
    voter = ReplicaState(
        replica_id=state.controller_id,
        # The version counts records, as offsets of the metadata log do.
        log_end_offset=state.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    row = ResponsePartitionData(
        leader_id=state.controller_id,
        leader_epoch=state.controller_epoch,
        high_watermark=state.version,
        current_voters=[voter],
    )
    nodes = [
        Node(node_id=node.id, listeners=[Listener(name=LISTENER_NAME, host=node.host, port=node.port)])
        for node in state.nodes
        if node.id == state.controller_id
    ]
    return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[row])], nodes=nodes)


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    text = "This server does not host this topic-partition."
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(partition_index=row.partition_index, error_code=code, error_message=text)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
