"""ListTransactions (key 66, v0-2): the transactional ids that this broker coordinates.

Differs:  docs/DIFFERENCES.md#k66
Versions: v0 is flexible; v1 filters by how long a transaction runs; v2 by a pattern of its id.
Sources:  KIP-664, KIP-994, KIP-1152.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.broker.runtime.patterns import PatternRefused, compile_pattern
from semel.broker.runtime.yielding import Pausing, run_pausing
from semel.broker.transactions.types import TransactionEntry
from semel.broker.transactions.types import TransactionState as State
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

CHARS_BETWEEN_PAUSES = 4_000  # a hostile pattern needs about 2 us for each
CHARS_OF_AN_ENTRY = 8
STATE_NAMES = frozenset(state.kafka_name for state in State)


def refuse(_: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
    """Answer with this error and no list."""
    return ListTransactionsResponse(error_code=code)


@api(ListTransactionsRequest, ListTransactionsResponse, first=0, last=2, refuse=refuse)
async def answer(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List those that pass every filter."""
    pattern = request.transactional_id_pattern
    try:
        matches = compile_pattern(pattern) if pattern else None
    except PatternRefused:
        return refuse(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    clock = context.broker.world.clock
    filters = _Filters(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        started_before_ms=clock.wall_ms() - request.duration_filter if request.duration_filter >= 0 else None,
        matches_id=matches,
    )
    # A copy, since the filters pause.
    entries = [entry for coordinator in context.broker.transactions.all() for entry in coordinator.core.entries()]
    rows = await run_pausing(_listed(entries, filters), clock)
    unknown = [name for name in request.state_filters if name not in STATE_NAMES]
    return ListTransactionsResponse(transaction_states=rows, unknown_state_filters=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filters:
    states: frozenset[str]
    producer_ids: frozenset[int]
    started_before_ms: int | None
    matches_id: Callable[[str], bool] | None

    def select(self, entry: TransactionEntry) -> bool:
        if self.states and entry.state.kafka_name not in self.states:
            return False
        if self.producer_ids and entry.producer_id not in self.producer_ids:
            return False
        if self.started_before_ms is not None and entry.started_ms >= self.started_before_ms:
            return False
        return self.matches_id is None or self.matches_id(entry.transactional_id)


def _listed(entries: Sequence[TransactionEntry], filters: _Filters) -> Pausing[list[TransactionState]]:
    rows: list[TransactionState] = []
    unpaused_chars = 0
    for entry in entries:
        unpaused_chars += len(entry.transactional_id) + CHARS_OF_AN_ENTRY
        if unpaused_chars > CHARS_BETWEEN_PAUSES:
            unpaused_chars = 0
            yield
        # Only the coordinators of this broker are asked. A client that wants all transactions asks every broker.
        if filters.select(entry):
            row = TransactionState(
                transactional_id=entry.transactional_id,
                producer_id=entry.producer_id,
                transaction_state=entry.state.kafka_name,
            )
            rows.append(row)
    return rows
