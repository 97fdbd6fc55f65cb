"""InitProducerId (key 22, v0-5): hand out a producer id.

Keeps:    B3 a producer id is handed out once, also across restarts.
Differs:  docs/DIFFERENCES.md#k22
Versions: v2 first flexible; v3 carries the caller's id and epoch; v4 may answer PRODUCER_FENCED.
Sources:  KIP-98, KIP-360, KIP-588.
"""

from __future__ import annotations

from semel.broker.context import Context
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def refuse(_: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
    """An error and no id."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


@api(InitProducerIdRequest, InitProducerIdResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new id with epoch 0 for an idempotent producer."""
    if request.transactional_id is not None:
        return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=context.broker.take_producer_id(), producer_epoch=0)
