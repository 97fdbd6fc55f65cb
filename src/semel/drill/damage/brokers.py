"""Brokers that die, lose their disks and come back; who leads and who coordinates."""

from __future__ import annotations

import shutil

from semel.drill.damage.records import WAIT_S_MAX, admin_of, wait_until
from semel.engine.embedded import Cluster
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings

# Loss is found and leaders move at once, so that nobody waits for a session to end.
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


def leader_of(cluster: Cluster, topic: str) -> int:
    """The broker that leads partition 0; -1 while none does."""
    found = admin_of(cluster).list_topics(timeout=WAIT_S_MAX).topics[topic].partitions
    return int(found[0].leader) if 0 in found else -1


def others(cluster: Cluster, broker_id: int) -> list[int]:
    """Every other broker."""
    return [node.id for node in cluster.core.nodes if node.id != broker_id]


def coordinator_of(cluster: Cluster, kind: CoordinatorKind, key: str) -> int:
    """The broker that coordinates a group or a transactional id."""
    seen = WireCluster(WireSettings.from_options({"kafka.bootstrap.servers": cluster.bootstrap}))
    try:
        return seen.coordinator(kind, key, Deadline.after_ms(WAIT_S_MAX * 1000)).id
    finally:
        seen.close()


def lose_disk(cluster: Cluster, broker_id: int) -> int:
    """Kill a broker and empty its folder; it stays down. Gives the number of brokers that this happened to."""
    cluster.kill(broker_id)
    # The whole folder: it comes back as a machine with a new disk.
    shutil.rmtree(cluster.data / f"broker-{broker_id}")
    return 1


def restart_all(cluster: Cluster, *broker_ids: int) -> None:
    """Start brokers again, and wait until every partition has a leader."""
    for broker_id in broker_ids:
        cluster.restart(broker_id)
    admin = admin_of(cluster)

    def led() -> bool:
        topics = admin.list_topics(timeout=WAIT_S_MAX).topics.values()
        return all(one.leader >= 0 for topic in topics for one in topic.partitions.values())

    wait_until(led, "every partition has a leader")
