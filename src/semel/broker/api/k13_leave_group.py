"""LeaveGroup (key 13, v0-5): members go, or an administrator removes them.

Differs:  docs/DIFFERENCES.md#k13
Versions: v3 many members, by group instance id too; v4 first flexible; v5 reason.
Sources:  KIP-345, KIP-800.
"""

from __future__ import annotations

from semel.broker.groups.classic.types import LeaveRequest, LeaveResponse, LeavingMember
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

VERSION_MANY_MEMBERS = 3


def refuse(_: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    """Answer with this error at the top."""
    return LeaveGroupResponse(error_code=code)


@api(LeaveGroupRequest, LeaveGroupResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove the members; the group rebalances without them."""
    coordinator = context.broker.groups.find(request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    is_many = context.version >= VERSION_MANY_MEMBERS
    # Before version 3 a member could only leave by itself, so the request has no list.
    rows = request.members if is_many else (MemberIdentity(member_id=request.member_id),)
    members = tuple(LeavingMember(member_id=row.member_id, group_instance_id=row.group_instance_id) for row in rows)
    leave = LeaveRequest(group_id=request.group_id, members=members)
    response = await coordinator.ask(lambda core, token, now_ms: core.leave(token, leave, now_ms))
    assert isinstance(response, LeaveResponse)
    if response.error_code:
        return LeaveGroupResponse(error_code=response.error_code)
    # That version has no rows in its answer: the member's own error is the answer's.
    if not is_many:
        return LeaveGroupResponse(error_code=response.results[0])
    answers = [
        MemberResponse(member_id=row.member_id, group_instance_id=row.group_instance_id, error_code=code)
        for row, code in zip(rows, response.results, strict=True)
    ]
    return LeaveGroupResponse(members=answers)
