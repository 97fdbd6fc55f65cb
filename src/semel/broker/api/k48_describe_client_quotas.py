"""DescribeClientQuotas (key 48, v0-1): which clients are held back, and how much. Here nobody is.

Java's `kafka-configs --describe --entity-type users` asks this before it shows the users' SCRAM credentials.

Differs:  docs/DIFFERENCES.md#k48
Versions: v1 first flexible.
Sources:  KIP-546.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
IP = "ip"
ENTITY_TYPES = ("user", "client-id", IP)


def refuse(_: DescribeClientQuotasRequest, code: ErrorCode) -> DescribeClientQuotasResponse:
    """Answer with this error and no entries."""
    return _refused(code, None)


def _refused(code: int, message: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


@api(DescribeClientQuotasRequest, DescribeClientQuotasResponse, first=0, last=1, refuse=refuse)
async def answer(_: Context, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer a filter that makes sense with nothing: no quota can be set (AlterClientQuotas)."""
    try:
        _check_filter(request.components)
    except Refused as refused:
        return _refused(refused.code, refused.summary)
    return DescribeClientQuotasResponse()


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        if not component.entity_type:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if component.entity_type in seen:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Entity type {component.entity_type} appears more than once.")
        if component.entity_type not in ENTITY_TYPES:
            # As Apache Kafka: a type that it does not know is taken for one of a newer version.
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if (component.match_type == EXACT) != (component.match is not None):
            raise Refused(ErrorCode.INVALID_REQUEST, "An exact match needs a text to match, any other has none.")
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "An IP cannot be combined with a user or a client id.")
