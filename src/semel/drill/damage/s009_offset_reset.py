"""S009: auto.offset.reset=latest, and the group's offsets are deleted while it rests."""

from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    Reachable,
    admin_of,
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


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """The group stood at the beginning; without its position the setting decides where it goes on."""
    topic, group = new_topic(cluster, "reset"), new_name("reset")
    before = consumer(cluster, group)
    commit_position(before, topic, 0)
    before.close()
    send_each(producer(cluster, {}), topic, numbered())
    admin = admin_of(cluster)
    # An empty group can be deleted; this does what `offsets.retention.minutes` does in a week.
    fired = sum(done.result(WAIT_S_MAX) is None for done in admin.delete_consumer_groups([group]).values())
    after = consumer(cluster, group, {"auto.offset.reset": "earliest" if followed else "latest"})
    seen = read_rest(after, topic)
    after.close()
    return tally(numbered(), seen, fired=fired)
