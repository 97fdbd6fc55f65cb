"""A coordinator that is cut off from the other brokers, but not from clients, does not know that it was replaced.

Each test asserts that another broker leads the coordinator's partition; a split that moved nothing would show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.broker.runtime.intercept import Delay
from semel.engine.embedded import Cluster
from semel.errors import SinkError
from semel.protocol.coordinator_partition import coordinator_partition
from semel.sinks.base import Run
from semel.sinks.kafka.runs import run_group
from semel.sinks.kafka.stages import ANONYMOUS
from semel.sinks.recovery import Plan
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.offsets import CommittedOffset
from semel.wire.produce import send_batches
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.topics import all_in_sync, create_topic
from tests.support.waiting import eventually
from tests.wire.conftest import MakeClient
from tests.wire.empty_micro_batches import empty_micro_batch, empty_run, open_session, run_empty, write_run
from tests.wire.records import batches_of

CONTROLLER = 0
TOPIC_OF = {CoordinatorKind.TRANSACTION: "__transaction_state", CoordinatorKind.GROUP: "__consumer_offsets"}
QUICK = {"broker.session.timeout.ms": "600", "broker.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Cluster]:
    """Three brokers that notice soon when one is cut off."""
    with Cluster(brokers=3, config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def whole(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, healed after the test."""
    yield cluster
    cluster.heal()
    eventually(lambda: all_in_sync(cluster), what="all replicas are in sync")


@pytest.fixture
def replicated(whole: Cluster, client: WireCluster, request: pytest.FixtureRequest) -> str:
    """A topic on all brokers, whose name is also that of a group and of a transactional id with another coordinator."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    create_topic(whole, name, partitions=3, replicas=3)
    homes = {kind: client.coordinator(kind, name, client.deadline()).id for kind in TOPIC_OF}
    eventually(lambda: all_in_sync(whole), what="all replicas are in sync")
    if len(set(homes.values())) == 1:
        place = place_of(whole, CoordinatorKind.GROUP, name)
        whole.move_leader(place.topic, place.partition, homes[CoordinatorKind.GROUP] % 3 + 1)
    for kind in TOPIC_OF:
        client.forget_coordinator(kind, name)
    return name


def place_of(cluster: Cluster, kind: CoordinatorKind, key: str) -> TopicPartition:
    """The partition whose leader is the coordinator."""
    topic = TOPIC_OF[kind]
    return TopicPartition(topic, coordinator_partition(key, len(cluster.core.state.topics[topic].partitions)))


def cut_leader_off(cluster: Cluster, place: TopicPartition) -> int:
    """Split a leader from all others and wait until another is elected; the old one's broker id."""
    eventually(lambda: all_in_sync(cluster), what="all replicas are in sync")

    def leader() -> int:
        return cluster.core.state.topics[place.topic].partitions[place.partition].leader

    old = leader()
    for other in {CONTROLLER, *cluster.core.brokers} - {old}:
        cluster.split(old, other)
    eventually(lambda: leader() not in (old, -1), what="another broker leads")
    return old


def begun(client: WireCluster, name: str) -> TransactionClient:
    transaction = TransactionClient(client, name, timeout_ms=60_000)
    transaction.begin(client.deadline())
    return transaction


@pytest.mark.parametrize("kind", list(TOPIC_OF), ids=["transaction", "group"])
def test_a_coordinator_that_does_not_answer_is_not_asked_who_it_is(
    whole: Cluster, client: WireCluster, replicated: str, kind: CoordinatorKind
) -> None:
    place = TopicPartition(replicated, 0)
    transaction = begun(client, replicated)
    transaction.add_partitions([place], client.deadline())
    client.coordinator(CoordinatorKind.GROUP, replicated, client.deadline())
    old = cut_leader_off(whole, place_of(whole, kind, replicated))
    assert client.coordinator(kind, replicated, client.deadline()).id == old
    hook = whole.intercept("FindCoordinator", Delay(ms=0), times=None, where=lambda seen: seen.broker_id == old)
    transaction.commit_offsets(replicated, {place: CommittedOffset(offset_next=1)}, client.deadline())
    transaction.end(client.deadline(), commit=True)
    assert hook.fired == 0
    assert client.coordinator(kind, replicated, client.deadline()).id != old


def test_a_coordinator_that_says_not_yet_for_ever_is_looked_for_again(
    whole: Cluster, client_of: MakeClient, client: WireCluster, replicated: str
) -> None:
    place = TopicPartition(replicated, 0)
    transaction = begun(client, replicated)
    transaction.commit_offsets(replicated, {place: CommittedOffset(offset_next=1)}, client.deadline())
    reader = client_of(whole.bootstrap, request_timeout_ms="1000", default_api_timeout_ms="20000")
    reader.coordinator(CoordinatorKind.GROUP, replicated, reader.deadline())
    old = cut_leader_off(whole, place_of(whole, CoordinatorKind.GROUP, replicated))
    assert reader.coordinator(CoordinatorKind.GROUP, replicated, reader.deadline()).id == old
    transaction.end(client.deadline(), commit=True)  # the marker reaches only the new coordinator
    reading = TransactionClient(reader, replicated, timeout_ms=60_000)
    assert reading.ledger(replicated, reader.deadline(), [place]) == {place: CommittedOffset(offset_next=1)}


def test_who_was_replaced_fences_nobody(whole: Cluster, client: WireCluster, replicated: str) -> None:
    """It takes itself for both coordinators, and knows neither this producer epoch nor its transaction."""
    place = TopicPartition(replicated, 0)
    begun(client, replicated)
    group, state = (place_of(whole, kind, replicated) for kind in (CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION))
    old = client.coordinator(CoordinatorKind.TRANSACTION, replicated, client.deadline()).id
    whole.move_leader(group.topic, group.partition, old)
    assert client.coordinator(CoordinatorKind.GROUP, replicated, client.deadline()).id == old
    assert cut_leader_off(whole, state) == old
    client.forget_coordinator(CoordinatorKind.TRANSACTION, replicated)
    transaction = begun(client, replicated)
    assert client.coordinator(CoordinatorKind.GROUP, replicated, client.deadline()).id == old
    hook = whole.intercept("TxnOffsetCommit", Delay(ms=0), times=None, where=lambda seen: seen.broker_id == old)
    transaction.commit_offsets(replicated, {place: CommittedOffset(offset_next=1)}, client.deadline())
    assert hook.fired == 1
    transaction.end(client.deadline(), commit=True)


def test_a_leader_that_was_replaced_turns_nobody_away(whole: Cluster, client: WireCluster, replicated: str) -> None:
    """It takes itself for the transaction's coordinator too, and has not heard that its partition was added."""
    place = TopicPartition(replicated, 0)
    begun(client, replicated)
    old = client.coordinator(CoordinatorKind.TRANSACTION, replicated, client.deadline()).id
    whole.move_leader(place.topic, place.partition, old)
    assert client.leader(place, client.deadline()) == old
    assert cut_leader_off(whole, place_of(whole, CoordinatorKind.TRANSACTION, replicated)) == old
    client.forget_coordinator(CoordinatorKind.TRANSACTION, replicated)
    transaction = begun(client, replicated)
    transaction.add_partitions([place], client.deadline())
    assert client.leader(place, client.deadline()) == old
    assert transaction.identity is not None
    hook = whole.intercept("Produce", Delay(ms=0), times=None, where=lambda seen: seen.broker_id == old)
    batches = batches_of([place], 1, transactional=True)
    send_batches(client, batches, producer=transaction.identity, deadline=client.deadline())
    assert hook.fired == 1
    transaction.end(client.deadline(), commit=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("partition", range(3))
def test_a_leader_that_does_not_acknowledge_is_not_asked_who_leads(
    whole: Cluster, client: WireCluster, replicated: str, partition: int
) -> None:
    place = TopicPartition(replicated, partition)
    send_batches(client, batches_of([place], 1), producer=ANONYMOUS, deadline=client.deadline())
    old = cut_leader_off(whole, place)
    assert client.leader(place, client.deadline()) == old
    hook = whole.intercept("Metadata", Delay(ms=0), times=None, where=lambda seen: seen.broker_id == old)
    send_batches(client, batches_of([place], 1), producer=ANONYMOUS, deadline=client.deadline())
    assert hook.fired == 0
    assert client.leader(place, client.deadline()) != old


def test_a_micro_batch_planned_on_an_old_ledger_is_not_committed(whole: Cluster, replicated: str) -> None:
    """E11: the second driver reads from who led before the split, and would write micro-batch 1 a second time."""
    first = open_session(whole, replicated)
    assert run_empty(first, 0) is Plan.RUN
    second = open_session(whole, replicated, **{"kafka.client.id": "second"})
    assert second.cluster is not first.cluster
    assert second.read_ledger(empty_micro_batch(second, 1)).last is not None  # so it knows the coordinator
    old = cut_leader_off(whole, place_of(whole, CoordinatorKind.GROUP, replicated))
    first.cluster.forget_coordinator(CoordinatorKind.GROUP, replicated)
    assert run_empty(first, 1) is Plan.RUN
    assert second.cluster.coordinator(CoordinatorKind.GROUP, replicated, second.cluster.deadline()).id == old
    with pytest.raises(SinkError, match="holds more than was read"):
        run_empty(second, 1)
    second.abort()
    assert run_empty(second, 1) is Plan.SKIP


@pytest.mark.full
def test_a_run_planned_on_an_old_answer_is_not_committed(whole: Cluster, client: WireCluster, replicated: str) -> None:
    """E11 for batch jobs: only the coordinator of the run's group is cut off, and says that the run was never written.

    Another run follows, so that the pipeline's own entry does not name this one.
    """
    group = run_group(replicated, Run(id="monday"))
    place = place_of(whole, CoordinatorKind.GROUP, group)
    others = {client.coordinator(kind, replicated, client.deadline()).id for kind in TOPIC_OF}
    (third,) = {1, 2, 3} - others
    whole.move_leader(place.topic, place.partition, third)
    first = open_session(whole, replicated)
    second = open_session(whole, replicated, **{"kafka.client.id": "second"})
    second.read_ledger(empty_run(second, "monday"))  # so it knows the coordinator
    assert cut_leader_off(whole, place) == third
    first.cluster.forget_coordinator(CoordinatorKind.GROUP, group)
    assert [write_run(first, "monday"), write_run(first, "tuesday")] == [Plan.RUN, Plan.RUN]
    assert second.cluster.coordinator(CoordinatorKind.GROUP, group, second.cluster.deadline()).id == third
    with pytest.raises(SinkError, match="holds more than was read"):
        write_run(second, "monday")
    second.abort()
    assert write_run(second, "monday") is Plan.SKIP
