"""S037: a partition gets its first records while the group, which never committed there, rests."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
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

EARLY, LATE = numbered()[:5], numbered()[5:]


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """With a position in both partitions the group finds the late records, whatever auto.offset.reset says."""
    topic, group, client = new_topic(cluster, "two", partitions=2), new_name("two"), producer(cluster, {})
    reset = {"auto.offset.reset": "latest"}
    send_each(client, topic, EARLY)
    before = consumer(cluster, group)
    seen = read_rest(before, topic, (0, 1))
    commit_position(before, topic, len(seen))
    if followed:
        # Nothing was read there. A position of 0 says that the group knows the partition.
        commit_position(before, topic, 0, partition=1)
    before.close()
    fired = len(send_each(client, topic, LATE, partition=1))
    after = consumer(cluster, group, reset)
    seen += read_rest(after, topic, (0, 1))
    after.close()
    return tally(numbered(), seen, fired=fired)
