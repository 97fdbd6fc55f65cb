"""DescribeCluster (key 60, v0-2): the cluster's id, controller and brokers.

Keeps:    B9 an answer comes from one cluster state, never from two.
Differs:  docs/DIFFERENCES.md#k60
Versions: v0 first flexible; v1 endpoint type; v2 fenced brokers.
Sources:  KIP-700, KIP-919, KIP-1073.
"""

from __future__ import annotations

from semel.broker.api.k03_metadata import cluster_operations
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def refuse(_: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
    """Answer with this error and no brokers."""
    return _refused(code, None)


def _refused(code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)


@api(DescribeClusterRequest, DescribeClusterResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers that can be reached; controllers have no ports of their own here."""
    # KIP-919: a client that was given a broker's address where it wanted a controller's must hear so.
    if request.endpoint_type == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is an endpoint of brokers, not of controllers.")
    if request.endpoint_type != BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Endpoint type {request.endpoint_type} is unknown.")
    # No await between these reads, so they all see one state (B9).
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=context.broker.state.cluster_id,
        controller_id=context.broker.state.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in context.broker.state.nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response
