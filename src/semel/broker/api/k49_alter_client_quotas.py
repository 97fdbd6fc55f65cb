"""AlterClientQuotas (key 49, v0-1): hold clients back. Refused: a quota that is stored and not kept would deceive.

Differs:  docs/DIFFERENCES.md#k49
Versions: v1 first flexible.
Sources:  KIP-546.
"""

from __future__ import annotations

from semel.broker.api.k48_describe_client_quotas import ENTITY_TYPES, IP
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.refused import Refused
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    ResponseEntryData,
)

NOT_ENFORCED = (
    "semel's embedded cluster does not enforce client quotas, so none can be set. Nothing was changed. Limit the client"
    " itself, or test quotas on Apache Kafka."
)


def refuse(request: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
    """Answer with this error for every entity."""
    rows = [ResponseEntryData(error_code=code, error_message=None, entity=entry.entity) for entry in request.entries]
    return AlterClientQuotasResponse(entries=rows)


@api(AlterClientQuotasRequest, AlterClientQuotasResponse, first=0, last=1, refuse=refuse)
async def answer(_: Context, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Refuse every quota that would be set; one that is removed was never there, which Apache Kafka takes as done."""
    rows = []
    for entry in request.entries:
        row = ResponseEntryData(error_message=None, entity=entry.entity)
        try:
            _check(entry)
        except Refused as refused:
            row.error_code, row.error_message = refused.code, refused.summary
        rows.append(row)
    return AlterClientQuotasResponse(entries=rows)


def _check(entry: EntryData) -> None:
    types = [part.entity_type for part in entry.entity]
    if not types or len(set(types)) < len(types) or (IP in types and len(types) > 1):
        raise Refused(ErrorCode.INVALID_REQUEST, "A quota is for a user, a client id, both of them, or an IP.")
    if unknown := [name for name in types if name not in ENTITY_TYPES]:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {unknown[0]}")
    if any(part.entity_name == "" for part in entry.entity):
        raise Refused(ErrorCode.INVALID_REQUEST, "An empty name is not supported.")
    keys = [op.key for op in entry.ops]
    if len(set(keys)) < len(keys):
        raise Refused(ErrorCode.INVALID_REQUEST, "A quota is named twice.")
    # Last, so that a request that is wrong in itself gets the error that Apache Kafka would give.
    if not all(op.remove for op in entry.ops):
        raise Refused(ErrorCode.INVALID_REQUEST, NOT_ENFORCED)
