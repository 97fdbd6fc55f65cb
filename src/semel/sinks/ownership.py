"""Who owns a pipeline, as the transaction coordinator says, and producer ids that own nothing."""

from __future__ import annotations

from semel.errors import FencedError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline
from semel.wire.send_queue import ProducerIdentity


def check_not_taken_over(cluster: WireCluster, mine: ProducerIdentity, deadline: Deadline) -> None:
    """After a transaction timed out: FencedError when another driver has taken over since.

    Why: the coordinator moves the producer epoch on by one when it aborts a transaction that took too long. A newer
    driver moves it on by two: once to fence, once for itself. Without this look, a driver that slept through both would
    fence the newer one.
    """
    pipeline = mine.transactional_id or ""
    answer = ask_coordinator(
        cluster,
        Request(
            kind=CoordinatorKind.TRANSACTION,
            key=pipeline,
            message=DescribeTransactionsRequest(transactional_ids=[pipeline]),
            response=DescribeTransactionsResponse,
            codes=lambda answer: [row.error_code for row in answer.transaction_states],
            what=f"asking who owns pipeline {pipeline!r}",
        ),
        deadline,
    )
    for row in answer.transaction_states:
        if row.producer_id != mine.producer_id or row.producer_epoch > mine.producer_epoch + 1:
            raise FencedError(
                f"pipeline {pipeline!r}: a newer driver has taken over",
                code=ErrorCode.PRODUCER_FENCED,
                because="while this driver's transaction timed out, another one took a newer producer epoch",
            )


def new_producer(cluster: WireCluster, deadline: Deadline) -> ProducerIdentity:
    """A producer id of its own, without a transactional id."""
    backoff = cluster.backoff(deadline)
    while True:
        answer = cluster.call_any(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), InitProducerIdResponse, deadline
        )
        if not answer.error_code:
            return ProducerIdentity(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
        error = error_of(answer.error_code, "taking a producer id")
        if not code_of(answer.error_code).retriable:
            raise error
        backoff.wait(error)
