"""ListConfigResources (key 74, v0-1): the names of everything that can have settings.

Differs:  docs/DIFFERENCES.md#k74
Versions: v0 first flexible, lists client metrics subscriptions; v1 resource types.
Sources:  KIP-714, KIP-1142.
"""

from __future__ import annotations

from semel.broker.controller.config_changes import ResourceType
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def refuse(_: ListConfigResourcesRequest, code: ErrorCode) -> ListConfigResourcesResponse:
    """Answer with this error and no names."""
    return ListConfigResourcesResponse(error_code=code)


@api(ListConfigResourcesRequest, ListConfigResourcesResponse, first=0, last=1, refuse=refuse)
async def answer(context: Context, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the types asked for; none named asks for all."""
    # Version 0 was ListClientMetricsResources (KIP-714), and there are no client metrics here.
    if context.version == 0:
        return ListConfigResourcesResponse()
    kinds = dict.fromkeys(request.resource_types or list(ResourceType))
    if any(kind not in list(ResourceType) for kind in kinds):
        return refuse(request, ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in kinds for name in _names(context, kind)
        ]
    )


def _names(context: Context, kind: int) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return sorted(context.broker.state.topics)
        case ResourceType.BROKER:
            return [str(node.id) for node in context.broker.state.nodes]
        case _:
            return []
