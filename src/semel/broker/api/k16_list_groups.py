"""ListGroups (key 16, v0-5): the groups that this broker coordinates.

Differs:  docs/DIFFERENCES.md#k16
Versions: v3 first flexible; v4 states; v5 types.
Sources:  KIP-518, KIP-848.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def refuse(_: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
    """Answer with this error and no groups."""
    return ListGroupsResponse(error_code=code)


@api(ListGroupsRequest, ListGroupsResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups of every coordinator here that pass both filters."""
    rows: list[ListedGroup] = []
    asked = "".join([*request.states_filter, *request.types_filter])
    # A copy: coordinators come and go at the pauses.
    for coordinator in list(context.broker.groups.all()):
        # Filters are compared with every group, and their length is the client's choice.
        await context.pause_after(len(rows), asked)
        for group in coordinator.core.list_groups(request.states_filter, request.types_filter):
            rows.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
            await context.pause_after(len(rows))
    return ListGroupsResponse(groups=rows)
