"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append to or subtract from single settings.

Keeps:    B5 a change is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k44
Versions: v1 first flexible.
Sources:  KIP-339.
"""

from __future__ import annotations

from semel.broker.config_changes import Change, ResourceChanges, plan_all
from semel.broker.context import Context
from semel.broker.refused import Refused
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def refuse(request: IncrementalAlterConfigsRequest, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """The same error for every resource."""
    return IncrementalAlterConfigsResponse(responses=[_row(resource, code, None) for resource in request.resources])


def _row(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Plan every resource, then commit those that passed as one change."""
    broker, controller = context.broker, context.broker.controller
    wanted = [_wanted(resource) for resource in request.resources]
    planned = plan_all(controller, broker.id, wanted, replace_all=False)
    if not request.validate_only:
        controller.commit([plan for plan in planned if not isinstance(plan, Refused)])
    return IncrementalAlterConfigsResponse(
        responses=[
            _row(resource, ErrorCode(plan.code), plan.summary)
            if isinstance(plan, Refused)
            else _row(resource, ErrorCode.NONE, None)
            for resource, plan in zip(request.resources, planned, strict=True)
        ]
    )


def _wanted(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(name=row.name, operation=row.config_operation, value=row.value) for row in resource.configs]
    return ResourceChanges(type=resource.resource_type, name=resource.resource_name, changes=changes)
