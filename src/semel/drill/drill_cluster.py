"""The cluster that drills run on: its settings, and when it is whole."""

from __future__ import annotations

from semel.drill.damage.records import wait_until
from semel.engine.embedded import Cluster

IN_SYNC_S_MAX = 120.0
# Losses are found and leaders move within a second, so that a cell takes seconds and not minutes.
CONFIG = {
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "100",
}


def wait_in_sync(cluster: Cluster) -> None:
    """Wait until every partition has a leader and all of its replicas follow; on a busy machine that takes long."""

    def is_so() -> bool:
        places = [place for topic in cluster.core.state.topics.values() for place in topic.partitions]
        return all(len(place.isr) == len(place.replicas) and place.leader > 0 for place in places)

    wait_until(is_so, "all replicas are in sync", IN_SYNC_S_MAX)
