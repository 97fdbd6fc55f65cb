"""Who owns a pipeline, as the coordinators say; and producer ids without a transactional id."""

from __future__ import annotations

from semel.errors import ConfigError, FencedError, Outcome
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline
from semel.wire.group_offsets import count_members
from semel.wire.send_queue import ProducerIdentity


def taken_over(pipeline: str, error: FencedError | None = None) -> FencedError:
    """The error of an older driver, whichever of its requests was refused.

    A broker that dies after it gave this driver a new epoch, and before it answered, leads to the same refusal: nobody
    knows who owns the newer epoch. Going on would be wrong, as a driver that was cut off for a while looks alike.
    """
    if error is not None and error.outcome is Outcome.UNKNOWN:
        return FencedError(
            f"pipeline {pipeline!r}: a newer driver has taken over, or this one did so itself and was not told",
            code=ErrorCode.PRODUCER_FENCED,
            because="an answer with a new producer epoch was lost on its way, and the old one is refused now; nothing "
            "is lost or repeated: if no other driver of this pipeline runs, start the query again",
        )
    return FencedError(
        f"pipeline {pipeline!r}: a newer driver has taken over",
        code=ErrorCode.PRODUCER_FENCED,
        because="it took a newer producer epoch for the same pipeline name; this one writes nothing any more",
    )


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
        # One more is the coordinator's own abort; see above.
        if row.producer_id != mine.producer_id or row.producer_epoch > mine.producer_epoch + 1:
            raise FencedError(
                f"pipeline {pipeline!r}: a newer driver has taken over",
                code=ErrorCode.PRODUCER_FENCED,
                because="while this driver's transaction timed out, another one took a newer producer epoch",
            )


def check_has_no_members(cluster: WireCluster, pipeline: str, deadline: Deadline) -> None:
    """Refuse a group that consumers use: it is not a pipeline's (E9)."""
    members = count_members(cluster, pipeline, deadline=deadline)
    if members:
        raise ConfigError(
            f"the group {pipeline!r} has {members} live members, so it is not a pipeline's",
            because="the ledger is kept as the offsets of the group named after the pipeline; consumers of that "
            "group would overwrite it",
            you_want="another pipeline name, or stop those consumers",
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
