"""DescribeGroups (key 15, v0-6): state and members of groups.

Differs:  docs/DIFFERENCES.md#k15
Versions: v3 authorized operations; v4 group instance id; v5 first flexible; v6 GROUP_ID_NOT_FOUND and messages.
Sources:  KIP-345, KIP-430, KIP-1043.
"""

from __future__ import annotations

from semel.broker.metadata.acls import Resource
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def refuse(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
    """Answer with this error for every group."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
    )


@api(DescribeGroupsRequest, DescribeGroupsResponse, first=0, last=6, refuse=refuse)
async def answer(context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group that is coordinated here."""
    rows: list[DescribedGroup] = []
    for number, group_id in enumerate(request.groups):
        rows.append(_describe(context, group_id))
        await context.pause_after(number, group_id)
        await context.count_rows(1 + len(rows[-1].members))
    # A loop of its own: most askers do not want it, and each row asks for every operation of a group.
    for number, row in enumerate(rows if request.include_authorized_operations else ()):
        await context.pause_after(number)
        if not row.error_code:
            row.authorized_operations = context.operations(Resource.GROUP, row.group_id)
    return DescribeGroupsResponse(groups=rows)


def _describe(context: Context, group_id: str) -> DescribedGroup:
    coordinator = context.broker.groups.find(group_id)
    if isinstance(coordinator, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=coordinator)
    group = coordinator.core.describe_group(group_id, api_version=context.version)
    return DescribedGroup(
        error_code=group.error_code,
        error_message=group.error_message,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
