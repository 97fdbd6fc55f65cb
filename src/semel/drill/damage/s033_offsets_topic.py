"""S033: the only copy of a group's position is lost."""

from semel.drill.damage.brokers import REPLICATED, coordinator_of, lose_disk, restart_all
from semel.drill.damage.records import (
    Damage,
    commit_position,
    consumer,
    new_name,
    new_topic,
    numbered,
    producer,
    read_rest,
    send_each,
    tally,
)
from semel.engine.embedded import Cluster
from semel.wire.cluster import CoordinatorKind


def settings(*, followed: bool) -> dict[str, str]:
    """Three copies of the offsets, or one."""
    return REPLICATED | ({} if followed else {"offsets.topic.replication.factor": "1"})


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """What the group had processed and committed, it reads again."""
    del followed  # the brokers' settings are the whole difference
    topic, group = new_topic(cluster, "positions", replicas=3), new_name("positions")
    send_each(producer(cluster, {"acks": "all"}), topic, numbered())
    before = consumer(cluster, group)
    seen = read_rest(before, topic)
    commit_position(before, topic, len(seen))
    before.close()
    coordinator = coordinator_of(cluster, CoordinatorKind.GROUP, group)
    # The topic itself has three copies: what is lost is the position alone.
    fired = lose_disk(cluster, coordinator)
    restart_all(cluster, coordinator)
    after = consumer(cluster, group)
    seen += read_rest(after, topic)
    after.close()
    return tally(numbered(), seen, fired=fired)
