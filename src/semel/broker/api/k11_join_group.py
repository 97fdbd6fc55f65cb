"""JoinGroup (key 11, v0-9): enter a group, or come back to it for the next generation.

Keeps:    G3 a generation has one leader and one protocol; G5 nobody waits for ever.
Differs:  docs/DIFFERENCES.md#k11
Versions: v1 rebalance timeout; v4 a member id first; v5 group instance id; v6 first flexible; v7 protocol type;
          v8 reason; v9 skip assignment.
Sources:  KIP-62, KIP-345, KIP-394, KIP-559, KIP-800, KIP-814.
"""

from __future__ import annotations

from semel.broker.groups.classic.types import JoinRequest, JoinResponse, Protocol
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

VERSION_PROTOCOL_TYPE = 7


def refuse(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    """Answer with this error and no generation."""
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


@api(JoinGroupRequest, JoinGroupResponse, first=0, last=9, refuse=refuse)
async def answer(context: Context, request: JoinGroupRequest) -> JoinGroupResponse:
    """Wait until the join phase ends; its length is bounded by the members' rebalance timeouts."""
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    join = _join(context, request)
    response = await coordinator.ask(lambda core, token, now_ms: core.join(token, join, now_ms))
    assert isinstance(response, JoinResponse)
    return _response(context.version, response)


def _join(context: Context, request: JoinGroupRequest) -> JoinRequest:
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        # As Java prints an address without a host name, which is what Kafka's tools show.
        client_host=f"/{context.session.peer.rpartition(':')[0]}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        # Copied: a view would keep the whole frame in memory for as long as the member is in the group.
        protocols=tuple(Protocol(name=row.name, metadata=bytes(row.metadata)) for row in request.protocols),
        api_version=context.version,
    )


def _response(version: int, response: JoinResponse) -> JoinGroupResponse:
    # Versions before 7 cannot say "none".
    no_name = None if version >= VERSION_PROTOCOL_TYPE else ""
    return JoinGroupResponse(
        error_code=response.error_code,
        generation_id=response.generation,
        protocol_type=response.protocol_type,
        protocol_name=no_name if response.protocol_name is None else response.protocol_name,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in response.members
        ],
    )
