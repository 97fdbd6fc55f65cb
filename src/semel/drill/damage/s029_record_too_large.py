"""S029: a record that the producer may send and the topic does not take."""

from semel.drill.damage.records import Damage, Reachable, new_topic, numbered, producer, read_all, send_each, tally

TAKEN_BYTES_MAX, SENT_BYTES_MAX = 2_000, 10_000


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """One record is large; code that does not look at the result of each send never knows."""
    limit = SENT_BYTES_MAX if followed else TAKEN_BYTES_MAX
    topic = new_topic(cluster, "sizes", config={"max.message.bytes": str(limit)})
    # No codec is used: the limit is one of compressed bytes.
    values = [*numbered(), "x" * (SENT_BYTES_MAX // 2)]
    send_each(producer(cluster, {"message.max.bytes": SENT_BYTES_MAX}), topic, values)
    return tally(values, read_all(cluster, topic), fired=sum(len(value) > TAKEN_BYTES_MAX for value in values))
