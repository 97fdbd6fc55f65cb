"""DescribeTransactions (key 65, v0): the state of transactional ids.

Differs:  docs/DIFFERENCES.md#k65
Versions: v0 is flexible.
Sources:  KIP-664.
"""

from __future__ import annotations

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def refuse(request: DescribeTransactionsRequest, code: ErrorCode) -> DescribeTransactionsResponse:
    """Answer with this error for every id."""
    rows = [TransactionState(transactional_id=name, error_code=code) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)


@api(DescribeTransactionsRequest, DescribeTransactionsResponse, first=0, last=0, refuse=refuse)
async def answer(context: Context, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Look up each id."""
    rows = []
    for number, name in enumerate(request.transactional_ids):
        rows.append(_describe(context, name))
        await context.pause_after(number, name)
        await context.count_rows(1 + sum(1 + len(topic.partitions) for topic in rows[-1].topics))
    return DescribeTransactionsResponse(transaction_states=rows)


def _describe(context: Context, name: str) -> TransactionState:
    coordinator = context.broker.transactions.find(name)
    entry = coordinator if isinstance(coordinator, ErrorCode) else coordinator.core.describe(name)
    if isinstance(entry, ErrorCode):
        return TransactionState(transactional_id=name, error_code=entry)
    topics: dict[str, list[int]] = {}
    # The coordinator keeps them in a set, whose order changes from process to process.
    for topic, index in sorted(entry.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=name,
        transaction_state=entry.state.kafka_name,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=entry.started_ms,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        topics=[TopicData(topic=topic, partitions=rows) for topic, rows in topics.items()],
    )
