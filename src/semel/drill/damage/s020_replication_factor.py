"""S020: one copy, and the broker that has it loses its disk."""

from semel.drill.damage.brokers import leader_of, lose_disk, restart_all
from semel.drill.damage.records import Damage, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster


def settings(*, followed: bool) -> dict[str, str]:
    """A cluster of its own: brokers die in it."""
    del followed
    return {}


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """Everything was acknowledged before the disk was lost."""
    topic = new_topic(cluster, "copies", replicas=3 if followed else 1)
    # With one copy "all" is that copy: the producer is told that the records are safe in both cases.
    safe = send_each(producer(cluster, {"acks": "all"}), topic, numbered())
    leader = leader_of(cluster, topic)
    fired = lose_disk(cluster, leader)
    restart_all(cluster, leader)
    return tally(safe, read_all(cluster, topic), fired=fired)
