"""S025: a compacted topic, and a key of a committed transaction is written again."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
    commit_transaction,
    new_name,
    new_topic,
    producer,
    read_all,
    send_each,
    tally,
    wait_until,
)

# A segment for each record or two: the active one is never compacted.
SMALL = {"segment.bytes": "150", "min.cleanable.dirty.ratio": "0.01", "retention.ms": "-1"}
COMPACTED = {**SMALL, "cleanup.policy": "compact"}
FIRST, LATER = "sold", ["paid", "sent", "returned"]


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A topic beside it is compacted in any case: it tells when the broker has been round."""
    topic = new_topic(cluster, "orders", config=SMALL if followed else COMPACTED)
    beside = new_topic(cluster, "beside", config=COMPACTED)
    client = producer(cluster, {})
    for name in (topic, beside):
        commit_transaction(cluster, new_name("seller"), [(name, 0, FIRST)], key="order")
        send_each(client, name, LATER, key="order")
    wait_until(lambda: FIRST not in read_all(cluster, beside), "compaction")
    if not followed:
        wait_until(lambda: FIRST not in read_all(cluster, topic), "compaction")
    # Taken from the other topic, since nothing may happen to this one where the rule is followed.
    fired = int(FIRST not in read_all(cluster, beside))
    return tally([FIRST, LATER[-1]], read_all(cluster, topic), fired=fired)
