"""ListTransactions (key 66, v0-2): the transactional ids that this broker coordinates.

Differs:  docs/DIFFERENCES.md#k66
Versions: v0 is flexible; v1 filters by how long a transaction runs; v2 by a pattern of its id.
Sources:  KIP-664, KIP-994, KIP-1152.
"""

from __future__ import annotations

import re

from semel.broker.context import Context
from semel.broker.registry import api
from semel.broker.transaction_types import TransactionEntry
from semel.broker.transaction_types import TransactionState as State
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

STATE_NAMES = frozenset(state.kafka_name for state in State)


def refuse(_: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
    """An error and no list."""
    return ListTransactionsResponse(error_code=code)


@api(ListTransactionsRequest, ListTransactionsResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List those that pass every filter."""
    try:
        pattern = re.compile(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except re.error:
        return refuse(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = context.broker.world.clock.wall_ms()
    rows = [
        TransactionState(
            transactional_id=entry.transactional_id,
            producer_id=entry.producer_id,
            transaction_state=entry.state.kafka_name,
        )
        for coordinator in context.broker.transactions.all()
        for entry in coordinator.core.entries()
        if _passes(entry, request, pattern, now_ms)
    ]
    unknown = [name for name in request.state_filters if name not in STATE_NAMES]
    return ListTransactionsResponse(transaction_states=rows, unknown_state_filters=unknown)


def _passes(
    entry: TransactionEntry, request: ListTransactionsRequest, pattern: re.Pattern[str] | None, now_ms: int
) -> bool:
    if request.state_filters and entry.state.kafka_name not in request.state_filters:
        return False
    if request.producer_id_filters and entry.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter >= 0 and now_ms - entry.started_ms <= request.duration_filter:
        return False
    return pattern is None or pattern.fullmatch(entry.transactional_id) is not None
