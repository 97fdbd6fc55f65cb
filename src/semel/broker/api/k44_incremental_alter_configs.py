"""IncrementalAlterConfigs (key 44, v0-1): set, delete, append to or subtract from single settings.

Keeps:    B5 a change is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k44
Versions: v1 first flexible.
Sources:  KIP-339.
"""

from __future__ import annotations

from semel.broker.controller.config_changes import Change, ConfigAnswer, ResourceChanges, change_all
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.yielding import run_pausing
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def refuse(request: IncrementalAlterConfigsRequest, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """Answer with this error for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[_row(resource, ConfigAnswer(code)) for resource in request.resources]
    )


def _row(resource: AlterConfigsResource, outcome: ConfigAnswer) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Judge each resource by itself, and apply those that pass as one change."""
    wanted = [_wanted(resource) for resource in request.resources]
    work = change_all(
        context.broker.controller,
        context.broker.id,
        wanted,
        # Keys that the request does not name stay as they are, so two administrators
        # can work beside each other (KIP-339).
        replace_all=False,
        validate_only=request.validate_only,
    )
    outcomes = await run_pausing(work, context.broker.world.clock)
    return IncrementalAlterConfigsResponse(responses=list(map(_row, request.resources, outcomes)))


def _wanted(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(name=row.name, operation=row.config_operation, value=row.value) for row in resource.configs]
    return ResourceChanges(type=resource.resource_type, name=resource.resource_name, changes=changes)
