"""S012: no group to commit to, and the consumer is restarted."""

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


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A consumer without a lasting group finds no position when it comes back; librdkafka wants some name."""
    topic, group = new_topic(cluster, "group"), new_name("group")
    send_each(producer(cluster, {}), topic, numbered())
    seen: list[str] = []
    starts = 0
    for _ in range(2):
        client = consumer(cluster, group if followed else new_name("nobody"))
        seen += read_rest(client, topic)
        # In a group that nobody comes back to this is forgotten.
        commit_position(client, topic, len(numbered()))
        client.close()
        starts += 1
    return tally(numbered(), seen, fired=starts - 1)
