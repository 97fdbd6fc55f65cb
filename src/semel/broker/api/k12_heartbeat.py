"""Heartbeat (key 12, v0-4): a member lives, and learns of a rebalance.

Differs:  docs/DIFFERENCES.md#k12
Versions: v3 group instance id; v4 first flexible.
Sources:  KIP-62, KIP-345.
"""

from __future__ import annotations

from semel.broker.groups.classic import types as group_types
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def refuse(_: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
    """Answer with this error."""
    return HeartbeatResponse(error_code=code)


@api(HeartbeatRequest, HeartbeatResponse, first=0, last=4, refuse=refuse)
async def answer(context: Context, request: HeartbeatRequest) -> HeartbeatResponse:
    """Prolong the member's session."""
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    beat = group_types.HeartbeatRequest(
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    # Nothing is written for it, so there is nothing to wait for.
    return HeartbeatResponse(error_code=coordinator.heartbeat(beat))
