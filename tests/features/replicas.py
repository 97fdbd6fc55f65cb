"""Watching and repairing a replicated partition in feature tests.

What `note` writes is shown by pytest when the test fails: the sequence of in-sync replicas and log end offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

import semel
from semel.broker.metadata.cluster_state import PartitionState
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.waiting import eventually
from tests.support.wire import Wire

log = logging.getLogger("tests")
# kafka-python forgets to close its sockets when brokers die, and warnings are errors here.
survivors = pytest.mark.parametrize("driver", ["java", "confluent", "aiokafka"], indirect=True)
BROKERS = (1, 2, 3)


def create_replicated(cluster: semel.Cluster, name: str, config: Mapping[str, str]) -> None:
    """One partition on all three brokers."""
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3, configs=rows)
    with Wire.to_broker(cluster) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]


class Replicas:
    """One partition with three replicas."""

    def __init__(self, cluster: semel.Cluster, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic
        self.note("created")

    @property
    def place(self) -> PartitionState:
        """Who leads and who is in sync."""
        return self._cluster.core.state.topics[self.topic].partitions[0]

    @property
    def followers(self) -> list[int]:
        """Everybody but the leader."""
        return [one for one in self.place.replicas if one != self.place.leader]

    def end_offset(self, broker_id: int) -> int:
        """Where one broker's log ends."""
        return self._cluster.core.brokers[broker_id].replicas[self.topic, 0].log.log_end_offset

    def note(self, what: str) -> None:
        """Write down what happened and how the replicas stand."""
        place, brokers = self.place, self._cluster.core.brokers
        ends = {one: self.end_offset(one) for one in sorted(brokers) if (self.topic, 0) in brokers[one].replicas}
        log.warning("%s: leader %d, in sync %s, log end offsets %s", what, place.leader, list(place.isr), ends)

    def kill(self, *brokers: int) -> None:
        """Kill brokers, one after the other."""
        for broker_id in brokers:
            self._cluster.kill(broker_id)
            self.note(f"broker {broker_id} killed")

    def restart(self, *brokers: int) -> None:
        """Start brokers again."""
        for broker_id in brokers:
            self._cluster.restart(broker_id)
            self.note(f"broker {broker_id} started")

    def cut_followers(self) -> None:
        """Let nothing from the leader reach its followers."""
        for follower in self.followers:
            self._cluster.split(follower, self.place.leader)
        self.note("followers cut off from the leader")

    def wait_insync(self, count: int) -> None:
        """Wait until this many replicas are in sync."""
        eventually(lambda: len(self.place.isr) == count, what=f"{count} replicas in sync")
        self.note(f"{count} replicas in sync")


def repair(cluster: semel.Cluster) -> None:
    """Bring everything back, for the next test."""
    cluster.disarm()
    cluster.heal()
    for broker_id in BROKERS:
        if broker_id not in cluster.core.brokers:
            cluster.restart(broker_id)
