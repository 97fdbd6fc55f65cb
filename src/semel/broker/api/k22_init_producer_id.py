"""InitProducerId (key 22, v0-5): hand out a producer id and fence older owners.

Keeps:    B3 a producer id is handed out once, also across restarts; T1 one live producer epoch per transactional id.
Differs:  docs/DIFFERENCES.md#k22
Versions: v2 first flexible; v3 carries the caller's id and epoch; v4 may answer PRODUCER_FENCED.
Sources:  KIP-98, KIP-360, KIP-588, KIP-890.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.transactions.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Producer, ProducerAnswer
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def refuse(_: InitProducerIdRequest, code: ErrorCode) -> InitProducerIdResponse:
    """Answer with this error and no producer id."""
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


@api(InitProducerIdRequest, InitProducerIdResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new id for an idempotent producer; the next epoch for a transactional one."""
    # Both or neither: half a producer can be nobody's (KIP-360).
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    # Without a transactional id nobody has to be fenced, so no
    # coordinator is asked and nothing is written but the block of ids.
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=context.broker.take_producer_id(), producer_epoch=0)
    coordinator = context.broker.transactions.find(request.transactional_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
    # KIP-360: a producer that goes on after an error says who it is, so that it gets the next epoch
    # only if nobody has fenced it meanwhile.
    expected = Producer(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    result = await coordinator.ask(
        lambda core, token, now_ms: core.init_producer_id(
            token, transactional_id, timeout_ms, now_ms, expected=expected
        )
    )
    assert isinstance(result, ProducerAnswer)
    code = older_fencing_code(result.error_code, context.version, 4)
    return InitProducerIdResponse(error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch)


def older_fencing_code(code: ErrorCode, version: int, first: int) -> ErrorCode:
    """Clients below a version know fencing under the name it had before."""
    if code is ErrorCode.PRODUCER_FENCED and version < first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
