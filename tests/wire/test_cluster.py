"""Metadata, coordinators and connections: caches, refreshes, dead brokers, threads, forks."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable

import pytest

from semel.broker.runtime.intercept import After, AnswerError, Delay, DropRequest, DropResponse, Seen
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConnectionFailure, Outcome
from semel.protocol.error_codes import ErrorCode
from semel.wire.cluster import CoordinatorKind, WireCluster, shared_cluster
from semel.wire.settings import WireSettings
from semel.wire.topology import TopicPartition
from semel.world.ports import free_ports
from tests.support.topics import create_topic
from tests.wire.conftest import MakeClient


def test_metadata_has_leaders_epochs_and_ids(client: WireCluster, topic: str) -> None:
    found = client.topics(client.deadline(), [topic])[topic]
    assert list(found.partitions) == list(range(6))
    assert {each.leader for each in found.partitions.values()} == {1, 2, 3}
    assert {each.leader_epoch for each in found.partitions.values()} == {0}
    assert found.topic_id is not None
    assert not found.is_internal


def test_topics_that_do_not_exist_are_left_out_and_not_created(client: WireCluster, topic: str) -> None:
    assert list(client.topics(client.deadline(), [topic, "nowhere"])) == [topic]
    assert "nowhere" not in client.topics(client.deadline())


def test_a_topic_that_does_not_exist_is_said_before_the_deadline(client: WireCluster, topic: str) -> None:
    deadline = client.deadline(60_000)
    with pytest.raises(BrokerError, match="'nowhere' does not exist"):
        client.topic("nowhere", deadline)
    with pytest.raises(BrokerError, match=f"{topic}-6 does not exist"):
        client.leader(TopicPartition(topic, 6), deadline)
    assert deadline.left_ms > 30_000


def test_a_topic_is_asked_for_once(cluster: Cluster, client: WireCluster, topic: str) -> None:
    client.topic(topic, client.deadline())
    hook = cluster.intercept("Metadata", DropRequest(), times=None)
    client.topic(topic, client.deadline())
    assert hook.fired == 0
    cluster.disarm(hook)
    client.forget(topic)
    hook = cluster.intercept("Metadata", DropRequest())
    client.topic(topic, client.deadline())
    assert hook.fired == 1


@pytest.mark.parametrize("action", [DropRequest(), DropResponse(), DropResponse(then=After.SILENCE)])
def test_a_lost_answer_is_asked_for_again(
    cluster: Cluster, client: WireCluster, topic: str, action: DropRequest | DropResponse
) -> None:
    hook = cluster.intercept("Metadata", action)
    assert topic in client.topics(client.deadline())
    assert hook.fired == 1


def test_a_topic_not_yet_known_everywhere_is_waited_for(cluster: Cluster, client: WireCluster, topic: str) -> None:
    hook = cluster.intercept("Metadata", AnswerError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), times=2)
    assert client.topic(topic, client.deadline()).name == topic
    assert hook.fired == 2


def test_what_may_not_be_asked_is_said(cluster: Cluster, client: WireCluster, topic: str) -> None:
    cluster.intercept("Metadata", AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        client.topic(topic, client.deadline())


def test_dead_addresses_in_the_list_are_passed_over(cluster: Cluster, client_of: MakeClient, topic: str) -> None:
    dead = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    client = client_of(f"{dead},{cluster.bootstrap.split(',')[2]}")
    assert topic in client.topics(client.deadline())


def test_no_broker_at_all_is_said_at_the_deadline(client_of: MakeClient) -> None:
    ports = free_ports(2)
    client = client_of(",".join(f"127.0.0.1:{port}" for port in ports))
    with pytest.raises(ConnectionFailure, match="no broker can be reached") as failed:
        client.topics(client.deadline(300))
    assert all(str(port) in str(failed.value) for port in ports)
    assert "kafka.bootstrap.servers" in failed.value.next_command


def test_a_coordinator_is_found_and_remembered(cluster: Cluster, client: WireCluster) -> None:
    found = client.coordinator(CoordinatorKind.TRANSACTION, "p", client.deadline())
    assert found.id in (1, 2, 3)
    hook = cluster.intercept("FindCoordinator", DropRequest(), times=None)
    assert client.coordinator(CoordinatorKind.TRANSACTION, "p", client.deadline()) == found
    assert hook.fired == 0
    cluster.disarm(hook)
    client.forget_coordinator(CoordinatorKind.TRANSACTION, "p")
    hook = cluster.intercept("FindCoordinator", AnswerError(code=ErrorCode.COORDINATOR_NOT_AVAILABLE), times=2)
    assert client.coordinator(CoordinatorKind.TRANSACTION, "p", client.deadline()) == found
    assert hook.fired == 2


def at_broker(broker_id: int) -> Callable[[Seen], bool]:
    return lambda seen: seen.broker_id == broker_id


def test_a_coordinator_that_was_forgotten_is_not_asked_who_it_is(cluster: Cluster, client: WireCluster) -> None:
    keys = [f"key {number}" for number in range(12)]
    homes = {key: client.coordinator(CoordinatorKind.GROUP, key, client.deadline()).id for key in keys}
    assert len(set(homes.values())) == 3
    for key, home in homes.items():
        client.forget_coordinator(CoordinatorKind.GROUP, key)
        hook = cluster.intercept("FindCoordinator", Delay(ms=0), times=None, where=at_broker(home))
        assert client.coordinator(CoordinatorKind.GROUP, key, client.deadline()).id == home
        assert hook.fired == 0
        cluster.disarm(hook)


def test_a_coordinator_that_may_not_be_asked_for_is_an_error(cluster: Cluster, client: WireCluster) -> None:
    cluster.intercept("FindCoordinator", AnswerError(code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        client.coordinator(CoordinatorKind.GROUP, "g", client.deadline())


def test_a_connection_is_kept_and_a_broken_one_replaced(client: WireCluster, topic: str) -> None:
    client.topic(topic, client.deadline())
    first = client.connection(1, client.deadline())
    assert client.connection(1, client.deadline()) is first
    first.close()
    second = client.connection(1, client.deadline())
    assert second is not first
    assert second.usable


def test_a_restarted_broker_is_connected_to_again(client_of: MakeClient) -> None:
    with Cluster(brokers=1, topics=["t:1"]) as cluster:
        client = client_of(cluster.bootstrap)
        assert list(client.topics(client.deadline())) == ["t"]
        cluster.restart(1)
        assert list(client.topics(client.deadline())) == ["t"]


def test_each_thread_has_its_own_connections(client: WireCluster, topic: str) -> None:
    client.topic(topic, client.deadline())
    own = client.connection(1, client.deadline())
    seen: list[object] = []

    def work() -> None:
        seen.extend(client.connection(1, client.deadline()) for _ in range(2))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
    assert len(seen) == 6
    assert own not in seen
    assert client.connection(1, client.deadline()) is own


def test_a_forked_child_starts_with_connections_of_its_own(client: WireCluster, topic: str) -> None:
    client.topic(topic, client.deadline())
    own = client.connection(1, client.deadline())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        fresh = False
        try:
            os.close(reading)
            client.topic(topic, client.deadline())
            other = client.connection(1, client.deadline())
            fresh = other is not own and own.closed and other.usable
        finally:
            os.write(writing, b"1" if fresh else b"0")
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"1"
    assert client.connection(1, client.deadline()) is own
    assert own.usable
    assert topic in client.topics(client.deadline())


def test_one_cluster_for_the_same_settings(cluster: Cluster) -> None:
    settings = WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap})
    shared = shared_cluster(settings)
    try:
        assert shared_cluster(pickle.loads(pickle.dumps(settings))) is shared
        create_topic(cluster, "shared-by-all")
        assert "shared-by-all" in shared.topics(shared.deadline())
    finally:
        shared.close()


def test_whoever_waits_for_an_unreachable_cluster_is_told(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only when the deadline has passed; and the failure says that nothing was sent."""
    client = client_of("127.0.0.1:1", default_api_timeout_ms="1000")
    with pytest.raises(ConnectionFailure, match="no broker can be reached") as caught:
        client.topics(client.deadline(), ["any"])
    assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    told = [record.getMessage() for record in caplog.records if "no broker can be reached" in record.getMessage()]
    assert len(told) == 1
    assert "s more" in told[0]
