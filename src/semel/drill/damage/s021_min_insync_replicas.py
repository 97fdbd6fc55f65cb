"""S021: one confirmation is enough, and the only broker that gave it loses its disk."""

from semel.drill.damage.brokers import leader_of, lose_disk, others, restart_all
from semel.drill.damage.records import Damage, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster

# What is refused has to be given up while the followers are down, or the drill would wait for them.
PATIENCE = {"delivery.timeout.ms": 1_500}


def settings(*, followed: bool) -> dict[str, str]:
    """A cluster of its own: brokers die in it."""
    del followed
    return {}


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """What was refused is sent again when the brokers are back; what was acknowledged is not."""
    topic = new_topic(cluster, "confirmed", replicas=3, config={"min.insync.replicas": "2" if followed else "1"})
    leader = leader_of(cluster, topic)
    followers = others(cluster, leader)
    for broker_id in followers:
        cluster.kill(broker_id)
    safe = send_each(producer(cluster, {"acks": "all", **PATIENCE}), topic, numbered(2))
    fired = lose_disk(cluster, leader)
    restart_all(cluster, leader, *followers)
    # As a program does that was told of an error.
    refused = [value for value in numbered(2) if value not in safe]
    send_each(producer(cluster, {"acks": "all"}), topic, refused)
    return tally(numbered(2), read_all(cluster, topic), fired=fired)
