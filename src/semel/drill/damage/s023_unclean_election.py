"""S023: a replica that is behind becomes leader when the last one in sync dies."""

from semel.drill.damage.brokers import leader_of, others, restart_all
from semel.drill.damage.records import Damage, new_topic, numbered, producer, read_all, send_each, tally, wait_until
from semel.engine.embedded import Cluster

EARLY, LATE = numbered()[:5], numbered()[5:]


def settings(*, followed: bool) -> dict[str, str]:
    """A cluster of its own: brokers die in it."""
    del followed
    return {}


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """The late records are on the leader alone; either it comes back, or somebody without them leads."""
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(not followed).lower()}
    topic, client = new_topic(cluster, "election", replicas=3, config=config), producer(cluster, {"acks": "all"})
    safe = send_each(client, topic, EARLY)
    leader = leader_of(cluster, topic)
    followers = others(cluster, leader)
    for broker_id in followers:
        cluster.kill(broker_id)
    safe += send_each(client, topic, LATE)
    cluster.kill(leader)
    for broker_id in followers:
        cluster.restart(broker_id)
    if not followed:
        # Before the old leader is back, which has every record and would lead again.
        wait_until(lambda: leader_of(cluster, topic) in followers, "a replica that is behind leads")
    restart_all(cluster, leader)
    return tally(safe, read_all(cluster, topic), fired=len(followers))
