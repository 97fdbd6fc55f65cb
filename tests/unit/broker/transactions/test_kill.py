"""Killing a broker and starting it again: what the drills and the transaction features stand on.

Keeps: L3 after a crash the log holds what was appended; T3 what a dead coordinator still had on its way is old.
"""

from collections.abc import Iterator

import pytest

from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from tests.features.reading import visible, wait_complete
from tests.support.topics import produce
from tests.support.transactional import RawTransactions
from tests.support.wire import Wire

SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=["status:3"], config=SETTINGS) as started:
        yield started


def leader_of(cluster: Cluster, topic: str) -> int:
    return cluster.core.controller.state.topics[topic].partitions[0].leader


def test_a_killed_broker_is_gone_at_once_and_comes_back_on_its_port(cluster: Cluster) -> None:
    produce(cluster, "status", 3)
    leader = leader_of(cluster, "status")
    port = cluster.core.brokers[leader].node.port
    with Wire.to_broker(cluster, leader) as wire:
        cluster.kill(leader)
        with pytest.raises(ConnectionError):
            wire._read(1)
    with pytest.raises(ConnectionRefusedError):
        Wire("127.0.0.1", port)
    assert leader not in [node.id for node in cluster.core.nodes]
    cluster.restart(leader)
    assert cluster.core.brokers[leader].node.port == port
    assert len(visible(cluster, "status")) == 3
    produce(cluster, "status", 1)
    assert len(visible(cluster, "status")) == 4


def test_whoever_leads_again_leads_under_a_new_epoch(cluster: Cluster) -> None:
    leader = leader_of(cluster, "status")
    before = [place.leader_epoch for place in cluster.core.controller.state.topics["status"].partitions]
    cluster.restart(leader)
    places = cluster.core.controller.state.topics["status"].partitions
    # One leader epoch ended the old life of the broker, the next began its new one.
    assert [place.leader_epoch for place in places] == [
        epoch + 2 * (place.leader == leader) for epoch, place in zip(before, places, strict=True)
    ]


def test_a_restart_of_a_broker_that_runs_is_a_kill_and_a_start(cluster: Cluster) -> None:
    produce(cluster, "status", 2)
    for broker in (1, 2, 3):
        cluster.restart(broker)
    assert len(visible(cluster, "status")) == 2


def test_only_a_running_broker_can_be_killed(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="broker 9 is not running"):
        cluster.kill(9)
    cluster.kill(2)
    with pytest.raises(ConfigError, match="broker 2 is not running"):
        cluster.kill(2)


def test_a_cluster_stops_with_a_dead_broker_in_it_and_starts_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("data")
    with Cluster(brokers=3, topics=["status:3"], data=data, config=SETTINGS) as cluster:
        produce(cluster, "status", 2)
        cluster.kill(leader_of(cluster, "status"))
    with Cluster(brokers=3, data=data, config=SETTINGS) as cluster:
        assert len(visible(cluster, "status")) == 2


def test_every_append_of_many_transactions_is_answered_when_each_is_synced() -> None:
    with Cluster(brokers=3, topics=["status:3"], flush="every", config=SETTINGS) as cluster:
        for number in range(5):
            raw = RawTransactions(cluster, f"id-{number}", newer=True)
            assert raw.init() == ErrorCode.NONE
            assert raw.send("status", str(number)) == ErrorCode.NONE
            assert raw.end(raw.end_request(commit=True)) == ErrorCode.NONE
            wait_complete(cluster, f"id-{number}")
        assert visible(cluster, "status") == [str(number) for number in range(5)]
