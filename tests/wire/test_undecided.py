"""E12: a ledger entry that is not decided is not taken for one that is not there.

Undecided here by another producer with an open transaction in the pipeline's group; Apache Kafka has been seen to hold
entries of a committed transaction as undecided after its only node was killed and started again.
"""

from __future__ import annotations

import pytest

from semel.broker.runtime.intercept import DropRequest
from semel.engine.embedded import Cluster
from semel.errors import OutcomeUnknownError
from semel.sinks.recovery import Plan
from semel.wire.cluster import WireCluster
from semel.wire.group_offsets import CommittedOffset
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient
from tests.wire.empty_micro_batches import empty_micro_batch, open_session, run_empty

SOON = {"kafka.default.api.timeout.ms": "1500"}


def leave_undecided(client: WireCluster, topic: str) -> TransactionClient:
    """Another producer's transaction, with an offset of the group named after the topic, left open."""
    other = TransactionClient(client, f"{topic}-other", timeout_ms=60_000)
    other.begin(client.deadline())
    other.commit_offsets(topic, {TopicPartition(topic, 0): CommittedOffset(offset_next=9)}, client.deadline())
    return other


def test_a_first_entry_that_is_undecided_is_not_missing(cluster: Cluster, client: WireCluster, topic: str) -> None:
    other = leave_undecided(client, topic)
    session = open_session(cluster, topic, **SOON)
    with pytest.raises(OutcomeUnknownError, match="a transaction that is not decided"):
        run_empty(session, 0)
    other.end(client.deadline(), commit=False)
    assert run_empty(session, 0) is Plan.RUN


def test_a_driver_knows_what_it_has_committed(cluster: Cluster, client: WireCluster, topic: str) -> None:
    """It goes on; one that takes over cannot know, and waits until it is decided."""
    first = open_session(cluster, topic, **SOON)
    assert run_empty(first, 0) is Plan.RUN
    other = leave_undecided(client, topic)
    assert run_empty(first, 1) is Plan.RUN
    second = open_session(cluster, topic, **SOON, **{"kafka.client.id": "second"})
    with pytest.raises(OutcomeUnknownError, match="a transaction that is not decided"):
        run_empty(second, 1)
    other.end(client.deadline(), commit=False)
    assert run_empty(second, 1) is Plan.SKIP
    assert run_empty(second, 2) is Plan.RUN
    last = second.read_ledger(empty_micro_batch(second, 3)).last
    assert last is not None
    assert (last.micro_batch_id, last.number) == (2, 3)


def test_after_a_commit_without_an_answer_a_driver_asks(cluster: Cluster, client: WireCluster, topic: str) -> None:
    session = open_session(cluster, topic, **SOON)
    assert run_empty(session, 0) is Plan.RUN
    lost = cluster.intercept("EndTxn", DropRequest(), times=None)
    with pytest.raises(OutcomeUnknownError, match="no answer says whether"):
        run_empty(session, 1)
    assert lost.fired
    cluster.disarm(lost)
    other = leave_undecided(client, topic)
    with pytest.raises(OutcomeUnknownError, match="a transaction that is not decided"):
        run_empty(session, 1)
    other.end(client.deadline(), commit=False)
    assert run_empty(session, 1) is Plan.RUN
