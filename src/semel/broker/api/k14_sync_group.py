"""SyncGroup (key 14, v0-5): the leader hands in the assignment, every member gets its own.

Keeps:    G4 an assignment goes only to members of its generation.
Differs:  docs/DIFFERENCES.md#k14
Versions: v3 group instance id; v4 first flexible; v5 protocol type and name, then mandatory.
Sources:  KIP-345, KIP-559.
"""

from __future__ import annotations

from semel.broker.groups.classic.types import SyncRequest, SyncResponse
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

VERSION_PROTOCOL_MANDATORY = 5


def refuse(_: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    """Answer with this error and no assignment."""
    return SyncGroupResponse(error_code=code)


@api(SyncGroupRequest, SyncGroupResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: SyncGroupRequest) -> SyncGroupResponse:
    """Wait until the leader's assignment is durable."""
    # KIP-559: proxies in front of a cluster need both to know what passes, so clients have to send them.
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if context.version >= VERSION_PROTOCOL_MANDATORY and lacks_protocol:
        return refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    sync = SyncRequest(
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        # Only the leader's counts; other members send none. What the bytes mean is the clients' own matter.
        assignments=tuple((row.member_id, bytes(row.assignment)) for row in request.assignments),
    )
    response = await coordinator.ask(lambda core, token, now_ms: core.sync(token, sync, now_ms))
    assert isinstance(response, SyncResponse)
    return SyncGroupResponse(
        error_code=response.error_code,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )
