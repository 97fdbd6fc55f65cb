"""DescribeAcls (key 29, v1-3): the entries of the access control lists that a filter means.

Differs:  docs/DIFFERENCES.md#k29
Versions: v1 pattern types; v2 first flexible; v3 the resource type `user`.
Sources:  KIP-140, KIP-290, KIP-373.
"""

from __future__ import annotations

from semel.broker.controller.acl_changes import read_filter
from semel.broker.metadata.acls import Acl
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NO_AUTHORIZER = "No Authorizer is configured."


def refuse(_: DescribeAclsRequest, code: ErrorCode) -> DescribeAclsResponse:
    """Answer with this error and no entries."""
    return DescribeAclsResponse(error_code=code, error_message=None)


@api(DescribeAclsRequest, DescribeAclsResponse, first=1, last=3, refuse=refuse)
async def answer(context: Context, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the entries that match the filter, by resource."""
    if context.broker.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    try:
        wanted = read_filter(request)
    except Refused as refused:
        return DescribeAclsResponse(error_code=refused.code, error_message=refused.summary)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for number, acl in enumerate(context.broker.state.acls):
        await context.pause_after(number)
        if wanted.matches(acl):
            # The answer has entries grouped by what they are about; a dict keeps the order in which they were made.
            resources.setdefault((acl.resource, acl.name, acl.pattern), []).append(_row(acl))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(resource_type=resource, resource_name=name, pattern_type=pattern, acls=rows)
            for (resource, name, pattern), rows in resources.items()
        ],
    )


def _row(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )
