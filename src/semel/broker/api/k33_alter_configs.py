"""AlterConfigs (key 33, v0-2): replace all own settings of topics and brokers by those given.

Keeps:    B5 a change is durable before it is visible.
Differs:  docs/DIFFERENCES.md#k33
Versions: v2 first flexible.
Sources:  KIP-133, KIP-226.
"""

from __future__ import annotations

from semel.broker.controller.config_changes import Change, ConfigAnswer, ResourceChanges, change_all
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.yielding import run_pausing
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def refuse(request: AlterConfigsRequest, code: ErrorCode) -> AlterConfigsResponse:
    """Answer with this error for every resource."""
    return AlterConfigsResponse(responses=[_row(resource, ConfigAnswer(code)) for resource in request.resources])


def _row(resource: AlterConfigsResource, outcome: ConfigAnswer) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=outcome.code,
        error_message=outcome.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


@api(AlterConfigsRequest, AlterConfigsResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Judge each resource by itself, and apply those that pass as one change."""
    wanted = [_wanted(resource) for resource in request.resources]
    work = change_all(
        context.broker.controller,
        context.broker.id,
        wanted,
        # Two administrators who use this overwrite each other's changes, which is why
        # KIP-339 made IncrementalAlterConfigs.
        replace_all=True,
        validate_only=request.validate_only,
    )
    outcomes = await run_pausing(work, context.broker.world.clock)
    return AlterConfigsResponse(responses=list(map(_row, request.resources, outcomes)))


def _wanted(resource: AlterConfigsResource) -> ResourceChanges:
    changes = [Change(name=row.name, value=row.value) for row in resource.configs]
    return ResourceChanges(type=resource.resource_type, name=resource.resource_name, changes=changes)
