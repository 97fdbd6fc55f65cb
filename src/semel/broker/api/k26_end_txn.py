"""EndTxn (key 26, v0-5): commit or abort a transaction.

Keeps:    T2 all or nothing; T4 a retried request has the effect of one.
Differs:  docs/DIFFERENCES.md#k26
Versions: v2 PRODUCER_FENCED; v3 first flexible; v4 abortable errors; v5 returns the next producer epoch.
Sources:  KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

from semel.broker.api.k22_init_producer_id import older_fencing_code
from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.transactions.types import EPOCH_BUMP_VERSION, Producer, ProducerAnswer
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def refuse(_: EndTxnRequest, code: ErrorCode) -> EndTxnResponse:
    """Answer with this error and no producer to go on with."""
    return EndTxnResponse(error_code=code)


@api(EndTxnRequest, EndTxnResponse, first=0, last=5, refuse=refuse)
async def answer(context: Context, request: EndTxnRequest) -> EndTxnResponse:
    """Decide the transaction; the markers follow."""
    coordinator = context.broker.transactions.find(request.transactional_id)
    if isinstance(coordinator, ErrorCode):
        return refuse(request, coordinator)
    producer = Producer(request.producer_id, request.producer_epoch)
    # Version 5 is how a client says that it understands the new producer epoch in the answer.
    client_version = EPOCH_BUMP_VERSION if context.version >= 5 else 0
    result = await coordinator.ask(
        lambda core, token, now_ms: core.end(
            token,
            request.transactional_id,
            producer,
            now_ms,
            commit=request.committed,
            client_version=client_version,
        )
    )
    assert isinstance(result, ProducerAnswer)
    return EndTxnResponse(
        error_code=older_fencing_code(result.error_code, context.version, 2),
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
    )
