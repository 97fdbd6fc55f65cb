"""Each fault on a running cluster: it is felt, it counts what was felt (F1), and nothing is left when it ends (F2)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.faults import (
    ClockJump,
    CutResponse,
    DelayMessage,
    Fault,
    FullDisk,
    KillBroker,
    KillController,
    LoseRequest,
    LoseResponse,
    LostSync,
    MoveLeader,
    PauseBroker,
    RefuseRequest,
    RestartBroker,
    SlowDisk,
    SplitNetwork,
    TornWrite,
    injected,
)
from semel.protocol.error_codes import ErrorCode
from tests.support.waiting import eventually
from tests.unit.faults.served import TOPIC, answered, connected, leader_of, log_end, produced, produced_unless_silent

FOR_EVER_MS = 3_600_000


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=[f"{TOPIC}:1:3"], flush="every") as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    def is_whole() -> bool:
        return sorted(running.core.state.topics[TOPIC].partitions[0].isr) == [1, 2, 3]

    eventually(is_whole, what="all replicas are in sync")
    return running


def test_kill_broker(cluster: Cluster) -> None:
    with injected(cluster, KillBroker(broker=2)) as fault:
        assert fault.fired == 1
        assert sorted(cluster.core.brokers) == [1, 3]
    assert sorted(cluster.core.brokers) == [1, 2, 3]


def test_a_broker_that_is_dead_cannot_be_killed_or_paused_again(cluster: Cluster) -> None:
    with injected(cluster, KillBroker(broker=2)):
        for fault in (KillBroker(broker=2), PauseBroker(broker=2), RestartBroker(broker=2), TornWrite(broker=2)):
            with injected(cluster, fault):
                assert fault.fired == 0
            assert 2 not in cluster.core.brokers


def test_restart_broker(cluster: Cluster) -> None:
    before = cluster.core.brokers[2]
    with injected(cluster, RestartBroker(broker=2)) as fault:
        assert fault.fired == 1
        assert cluster.core.brokers[2] is not before


def test_a_broker_whose_port_is_taken_can_be_started_later(cluster: Cluster) -> None:
    port = cluster.core.brokers[2].node.port
    cluster.kill(2)
    cluster.run(lambda core: core.wait_dead(2))
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(Exception, match="in use"):
            cluster.restart(2)
    cluster.restart(2)
    assert 2 in cluster.core.brokers


def test_pause_broker(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    with connected(cluster, leader) as client:
        assert produced(client) == ErrorCode.NONE
        with injected(cluster, PauseBroker(broker=leader)) as fault:
            assert fault.fired == 1
            assert produced_unless_silent(client) is None
        assert answered(client) in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("one_way", [False, True])
def test_split_network(cluster: Cluster, one_way: bool) -> None:
    with injected(cluster, SplitNetwork(source=2, target=0, one_way=one_way)) as fault:
        eventually(lambda: fault.fired > 0, what="a heartbeat is lost")
    links = cluster.core.links
    assert links.is_open(2, 0)
    assert links.is_open(0, 2)


def test_two_splits_are_mended_one_by_one(cluster: Cluster) -> None:
    links = cluster.core.links
    with injected(cluster, SplitNetwork(source=1, target=2)):
        with injected(cluster, SplitNetwork(source=2, target=3)):
            assert not links.is_open(3, 2)
        assert links.is_open(3, 2)
        assert not links.is_open(2, 1)
    assert links.is_open(2, 1)


def test_move_leader(cluster: Cluster) -> None:
    before = leader_of(cluster)
    with injected(cluster, MoveLeader(topic=TOPIC)) as fault:
        assert fault.fired == 1
        assert leader_of(cluster) != before
    with injected(cluster, MoveLeader(topic=TOPIC, broker=leader_of(cluster))) as fault:
        assert fault.fired == 0
    with pytest.raises(ConfigError, match="no partition"), injected(cluster, MoveLeader(topic="none")):
        pass


def test_kill_controller(cluster: Cluster) -> None:
    with injected(cluster, KillController()) as fault:
        assert fault.fired == 1
    eventually(lambda: cluster.core.has_controller, what="another controller took over")


def test_slow_disk(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    with connected(cluster, leader) as client, injected(cluster, SlowDisk(broker=leader, sync_ms=50)) as fault:
        assert fault.fired == 0
        assert produced(client) == ErrorCode.NONE
        assert fault.fired >= 1
    felt = fault.fired
    with connected(cluster, leader) as client:
        assert produced(client) == ErrorCode.NONE
    assert fault.fired == felt


def test_full_disk(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    with connected(cluster, leader) as client:
        with injected(cluster, FullDisk(broker=leader)) as fault:
            assert produced(client) == ErrorCode.KAFKA_STORAGE_ERROR
            assert fault.fired >= 1
        assert produced(client) == ErrorCode.NONE


def test_clock_jump(cluster: Cluster) -> None:
    clock = cluster.core.world(2).clock
    before_ms = clock.wall_ms()
    with injected(cluster, ClockJump(broker=2, ms=-FOR_EVER_MS)) as fault:
        assert fault.fired == 1
        assert clock.wall_ms() < before_ms
    assert clock.wall_ms() >= before_ms


@pytest.mark.parametrize("fault", [LoseRequest(api="Produce"), LoseResponse(api="Produce"), CutResponse(api="Produce")])
def test_lost_messages(cluster: Cluster, fault: Fault) -> None:
    leader = leader_of(cluster)
    with injected(cluster, fault), connected(cluster, leader) as client:
        with pytest.raises(ConnectionResetError):
            produced(client)
        assert fault.fired == 1
    with connected(cluster, leader) as client:
        assert produced(client) == ErrorCode.NONE
    assert fault.fired == 1


@pytest.mark.parametrize("kind", [LoseRequest, LoseResponse])
def test_lost_messages_of_a_connection_that_stays(
    cluster: Cluster, kind: type[LoseRequest] | type[LoseResponse]
) -> None:
    leader = leader_of(cluster)
    before = log_end(cluster, leader)
    with connected(cluster, leader) as client, injected(cluster, kind(api="Produce", silent=True)) as fault:
        assert produced_unless_silent(client) is None
        assert fault.fired == 1
    assert log_end(cluster, leader) == before + (kind is LoseResponse)


def test_delay_message(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    with connected(cluster, leader) as client:
        with injected(cluster, DelayMessage(api="Produce", ms=FOR_EVER_MS)) as fault:
            assert produced_unless_silent(client) is None
            assert fault.fired == 1
        assert answered(client) == ErrorCode.NONE


def test_refuse_request_on_one_broker(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    refusal = RefuseRequest(api="Produce", code="NOT_ENOUGH_REPLICAS", broker=leader, times=0)
    elsewhere = RefuseRequest(api="Produce", broker=leader % 3 + 1)
    with connected(cluster, leader) as client, injected(cluster, elsewhere):
        with injected(cluster, refusal):
            assert [produced(client) for _ in range(3)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
        assert produced(client) == ErrorCode.NONE
    assert (refusal.fired, elsewhere.fired) == (3, 0)


def test_refuse_requests_of_one_client(cluster: Cluster) -> None:
    refusal = RefuseRequest(api="Produce", code="NOT_ENOUGH_REPLICAS", client="raw")
    others = RefuseRequest(api="Produce", client="semel")
    with connected(cluster, leader_of(cluster)) as client, injected(cluster, others), injected(cluster, refusal):
        assert produced(client) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produced(client) == ErrorCode.NONE
    assert (refusal.fired, others.fired) == (1, 0)


@pytest.mark.parametrize("kind", [LostSync, TornWrite])
def test_a_crashed_machine_loses_what_it_had_not_synced(kind: type[LostSync] | type[TornWrite]) -> None:
    """One replica, no syncs: acknowledged records are gone. With a sync before each acknowledgement none is."""
    for flush, sends in (("os", 50), ("every", 50)):
        with Cluster(brokers=1, topics=[TOPIC], flush=flush) as cluster:
            with connected(cluster, 1) as client:
                assert [produced(client) for _ in range(sends)] == [ErrorCode.NONE] * sends
            with injected(cluster, kind(broker=1)) as fault:
                assert not cluster.core.brokers
            if flush == "os":
                assert fault.fired == 1
                assert log_end(cluster, 1) < sends
            else:
                assert log_end(cluster, 1) == sends
            with connected(cluster, 1) as client:
                assert produced(client) == ErrorCode.NONE
