"""DeleteAcls (key 31, v1-3): delete the entries of the access control lists that filters mean.

Keeps:    B5 an entry is gone for good before it stops counting.
Differs:  docs/DIFFERENCES.md#k31
Versions: v1 pattern types; v2 first flexible; v3 the resource type `user`.
Sources:  KIP-140, KIP-290, KIP-373.
"""

from __future__ import annotations

from semel.broker.api.k29_describe_acls import NO_AUTHORIZER
from semel.broker.controller.acl_changes import find_deletions, plan_deletions
from semel.broker.metadata.acls import Acl
from semel.broker.network.context import ELEMENTS_BETWEEN_PAUSES, Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def refuse(request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    """Answer with this error for every filter."""
    return _refused(request, code, None)


def _refused(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    )


@api(DeleteAclsRequest, DeleteAclsResponse, first=1, last=3, refuse=refuse)
async def answer(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete the entries that match any filter, hundreds as one change, and answer each with those it matched."""
    if context.broker.authorizer is None:
        return _refused(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    controller = context.broker.controller
    # One state for all filters, so that an entry is found by each that means it.
    acls, outcomes = controller.state.acls, []
    for asked in request.filters:
        outcomes.append(find_deletions(acls, asked))
        await context.count_rows(1 + len(outcomes[-1].found))
        if len(acls) > ELEMENTS_BETWEEN_PAUSES:
            await context.broker.world.clock.sleep_ms(0)  # the filter was held against each of them
    planned = plan_deletions(outcomes)
    for start in range(0, len(planned), ELEMENTS_BETWEEN_PAUSES):
        await context.pause_after(start - 1)
        controller.commit(planned[start : start + ELEMENTS_BETWEEN_PAUSES])
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=one.code, error_message=one.message or None, matching_acls=list(map(_row, one.found))
            )
            for one in outcomes
        ]
    )


def _row(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
