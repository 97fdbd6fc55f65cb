"""The numbers of brokers: chosen, kept with the data, refused when they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AdminClient,
    ConfigResource,
)

from semel.broker.metadata.cluster_state import OFFLINE
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.engine.embedded import Cluster
from semel.errors import ConfigError, ConnectionFailure
from semel.faults.drawing import ClusterShape, Draws
from semel.faults.on_brokers import PauseBroker
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse
from semel.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.support.waiting import eventually
from tests.support.wire import Wire

WAIT_S = 30.0


@pytest.fixture
def from_zero() -> Iterator[Cluster]:
    with Cluster(brokers=3, first_broker_id=0, topics=["orders:3:3"]) as cluster:
        yield cluster


def seen_ids(cluster: Cluster) -> list[int]:
    with Wire.to_broker(cluster, cluster.core.nodes[0].id) as wire:
        return sorted(node.node_id for node in wire.ask(MetadataRequest(topics=[]), MetadataResponse).brokers)


def produce(cluster: Cluster) -> None:
    failures: list[object] = []
    producer = Producer({**cluster.client_settings, "transactional.id": "numbers", "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("orders", b"x", partition=partition, on_delivery=lambda error, _: failures.append(error))
    producer.commit_transaction(WAIT_S)
    assert failures == [None] * 3


def test_broker_0_is_there_leads_and_can_be_asked(from_zero: Cluster) -> None:
    assert seen_ids(from_zero) == [0, 1, 2]
    places = from_zero.core.state.topics["orders"].partitions
    assert {place.leader for place in places} == {0, 1, 2}
    produce(from_zero)
    resource = ConfigResource(ConfigResource.Type.BROKER, "0")
    admin = AdminClient({**from_zero.client_settings, "log_level": 0})
    found = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert "num.partitions" in found


def test_broker_0_can_be_broken_and_so_can_the_controller(from_zero: Cluster) -> None:
    from_zero.kill(0)
    assert seen_ids(from_zero) == [1, 2]
    from_zero.restart(0)
    eventually(
        lambda: all(0 in place.isr for place in from_zero.core.state.topics["orders"].partitions),
        WAIT_S,
        what="broker 0 in sync again",
    )
    from_zero.split(0, -2)
    from_zero.heal()
    from_zero.pause(-2)
    eventually(lambda: from_zero.core.has_controller, WAIT_S, what="another controller")
    from_zero.resume(-2)
    from_zero.pause(0)
    from_zero.resume(0)
    produce(from_zero)
    with pytest.raises(ConfigError, match="no broker 3"):
        from_zero.split(3, 0)


@pytest.mark.parametrize("first", [0, 1])
def test_the_leader_of_a_partition_that_has_none_is_nobody(first: int) -> None:
    """Not the controller either: a question to it would end whatever asks, instead of being asked again."""
    with Cluster(brokers=2, first_broker_id=first, topics=["orders:2:1"]) as cluster:
        cluster.kill(leader_of(cluster))
        eventually(lambda: leader_of(cluster) == OFFLINE, WAIT_S, what="nobody leads")
        survivor = next(iter(cluster.core.brokers))
        asked = cluster.core.links.ask(
            survivor, OFFLINE, WriteTxnMarkersRequest(markers=[]), WriteTxnMarkersResponse, version=2
        )
        assert cluster._thread is not None
        with pytest.raises(ConnectionFailure):
            cluster._thread.call(asked, WAIT_S)


def leader_of(cluster: Cluster) -> int:
    return cluster.core.state.topics["orders"].partitions[0].leader


def test_drawn_faults_name_brokers_that_there_are() -> None:
    for first, parties in ((1, {0, 1, 2, 3}), (0, {-2, 0, 1, 2}), (7, {0, 7, 8, 9})):
        draws = Draws(5, ClusterShape(brokers=3, topics={}, first_broker_id=first))
        split = [draws.split() for _ in range(60)]
        assert {row[end] for row in split for end in ("source", "target")} == parties
        paused = [draws.fault(["pause-broker"]) for _ in range(60)]
        assert {one.broker for one in paused if isinstance(one, PauseBroker)} == parties - {min(parties)}


def test_numbers_are_kept_with_the_data(tmp_path: Path) -> None:
    with Cluster(brokers=2, first_broker_id=5, topics=["orders:3:2"], data=tmp_path) as cluster:
        assert seen_ids(cluster) == [5, 6]
        produce(cluster)
    for brokers, first in ((2, 1), (1, 5), (2, 6)):
        with pytest.raises(ConfigError) as caught, Cluster(brokers=brokers, first_broker_id=first, data=tmp_path):
            pass
        assert "first_broker_id=" in str(caught.value)
    with Cluster(brokers=2, first_broker_id=5, data=tmp_path) as cluster:
        produce(cluster)


@pytest.mark.parametrize("first", [-1, 2**31 - 2, 2**31])
def test_numbers_that_brokers_cannot_have_are_refused(first: int) -> None:
    with pytest.raises(ConfigError, match="first_broker_id"):
        Cluster(brokers=3, first_broker_id=first)


def test_the_command_refuses_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    start = ["cluster", "start", "--name", "numbers", "--first-broker-id"]
    assert main([*start, "-1"]) == ExitCode.USAGE
    assert "first_broker_id=-1" in capsys.readouterr().err
    assert main([*start, "0", "--engine", "apache"]) == ExitCode.USAGE
    assert "--first-broker-id" in capsys.readouterr().err
