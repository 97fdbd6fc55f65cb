"""CreateAcls (key 30, v1-3): make entries of the access control lists.

Keeps:    B5 an entry is durable before it counts.
Differs:  docs/DIFFERENCES.md#k30
Versions: v1 pattern types; v2 first flexible; v3 the resource type `user`.
Sources:  KIP-140, KIP-290, KIP-373.
"""

from __future__ import annotations

from semel.broker.api.k29_describe_acls import NO_AUTHORIZER
from semel.broker.controller.acl_changes import AclAnswer, plan_creations
from semel.broker.network.context import ELEMENTS_BETWEEN_PAUSES, Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def refuse(request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    """Answer with this error for every entry."""
    return _refused(request, code, None)


def _refused(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )


@api(CreateAclsRequest, CreateAclsResponse, first=1, last=3, refuse=refuse)
async def answer(context: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    """Plan every entry by itself, then commit those that passed, hundreds as one change."""
    if context.broker.authorizer is None:
        return _refused(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    controller = context.broker.controller
    outcomes: list[AclAnswer] = []
    for start in range(0, len(request.creations), ELEMENTS_BETWEEN_PAUSES):
        await context.pause_after(start - 1)
        some = request.creations[start : start + ELEMENTS_BETWEEN_PAUSES]
        # Planned on the newest state each time: at the pause others may have made the same entries.
        planned, found = plan_creations(controller.state.acls, some)
        controller.commit(planned)
        outcomes += found
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=one.code, error_message=one.message) for one in outcomes]
    )
