"""S026: a group that is slower than retention."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
    commit_position,
    consumer,
    log_start,
    new_name,
    new_topic,
    numbered,
    producer,
    read_rest,
    send_each,
    tally,
    wait_until,
)

# Retention removes whole segments, so they have to be small.
SHORT = {"segment.bytes": "150", "retention.bytes": "300", "retention.ms": "-1"}
LONG = {"segment.bytes": "150", "retention.bytes": "-1", "retention.ms": "-1"}


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """One topic keeps little, one keeps all: only in the second does a slow group find what it has not read."""
    topic = new_topic(cluster, "kept", config=LONG if followed else SHORT)
    beside = new_topic(cluster, "beside", config=SHORT)
    client = consumer(cluster, new_name("slow"))
    commit_position(client, topic, 0)
    for name in (topic, beside):
        send_each(producer(cluster, {}), name, numbered())
    wait_until(lambda: log_start(cluster, beside) > 0, "retention")
    if not followed:
        wait_until(lambda: log_start(cluster, topic) > 0, "retention")
    seen = read_rest(client, topic)
    client.close()
    # Of the other topic: where the rule is followed, retention takes nothing of this one.
    return tally(numbered(), seen, fired=int(log_start(cluster, beside) > 0))
