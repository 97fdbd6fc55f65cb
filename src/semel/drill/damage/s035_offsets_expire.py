"""S035: a group rests for longer than its offsets are kept."""

import time

from semel.clients.library import confluent
from semel.drill.damage.stage import (
    WAIT_S_MAX,
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
    wait_until,
)

REST_S = 0.5  # ten times the interval at which brokers look for offsets that have expired
NO_OFFSET = -1001


def settings(*, followed: bool) -> dict[str, str]:
    """Offsets that are kept for a week, or for no time at all."""
    return {"offsets.retention.minutes": "10080" if followed else "0"}


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """What it had processed and committed, it reads again."""
    topic, group = new_topic(cluster, "rest"), new_name("rest")
    send_each(producer(cluster, {}), topic, numbered())
    before = consumer(cluster, group)
    seen = read_rest(before, topic)
    commit_position(before, topic, len(seen))
    before.close()
    after = consumer(cluster, group)
    if followed:
        time.sleep(REST_S)
    else:
        wait_until(lambda: _position(after, topic) == NO_OFFSET, "the offsets have expired")
    seen += read_rest(after, topic)
    after.close()
    return tally(numbered(), seen, fired=1)


def _position(client: object, topic: str) -> int:
    (found,) = client.committed([confluent().TopicPartition(topic, 0)], WAIT_S_MAX)  # type: ignore[attr-defined]
    return int(found.offset)
