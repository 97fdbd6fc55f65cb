"""DeleteGroups (key 42, v0-2): delete empty groups with all their offsets.

Keeps:    G8 a deleted group has no offsets left.
Differs:  docs/DIFFERENCES.md#k42
Versions: v2 first flexible.
Sources:  KIP-229.
"""

from __future__ import annotations

from semel.broker.groups.types import DeleteGroupResponse
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def refuse(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    """Answer with this error for every group."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names]
    )


@api(DeleteGroupsRequest, DeleteGroupsResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete one after another; a group named twice is deleted once."""
    results: list[DeletableGroupResult] = []
    # A dict and not a set: the answer keeps the order of the request.
    for number, group_id in enumerate(dict.fromkeys(request.groups_names)):
        results.append(DeletableGroupResult(group_id=group_id, error_code=await _delete(context, group_id)))
        await context.pause_after(number, group_id)
    return DeleteGroupsResponse(results=results)


async def _delete(context: Context, group_id: str) -> ErrorCode:
    coordinator = context.broker.groups.find(group_id)
    if isinstance(coordinator, ErrorCode):
        return coordinator
    response = await coordinator.ask(lambda core, token, now_ms: core.delete_group(token, group_id, now_ms))
    assert isinstance(response, DeleteGroupResponse)
    return response.error_code
