"""S007: a timer commits, and the consumer is killed in the middle of a batch."""

from functools import partial
from typing import Any

from semel.clients.library import confluent
from semel.drill.damage.records import (
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

INTERVAL_MS = 50


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """The first consumer processes half of what it was given; the second goes on at the group's position."""
    topic, group = new_topic(cluster, "timer"), new_name("timer")
    send_each(producer(cluster, {}), topic, numbered())
    settings = {"enable.auto.commit": not followed, "auto.commit.interval.ms": INTERVAL_MS}
    killed = consumer(cluster, group, settings)
    given = read_rest(killed, topic)
    processed = given[: len(given) // 2]
    if followed:
        commit_position(killed, topic, len(processed))
    else:
        wait_until(partial(_stands_at, killed, topic, len(given)), "the timer has committed all")
    fired = int(len(processed) < len(given))
    # Without `close`, which would commit: a killed process says nothing.
    del killed
    successor = consumer(cluster, group)
    seen = processed + read_rest(successor, topic)
    successor.close()
    return tally(numbered(), seen, fired=fired)


def _stands_at(client: Any, topic: str, offset_next: int) -> bool:
    (found,) = client.committed([confluent().TopicPartition(topic, 0)], WAIT_S_MAX)
    return bool(found.offset == offset_next)
