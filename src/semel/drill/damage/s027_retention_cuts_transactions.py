"""S027: retention deletes the first segment of a committed transaction."""

from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    Reachable,
    log_start,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    tally,
    wait_until,
)
from semel.drill.damage.s026_retention_overtakes import LONG, SHORT


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """One transaction over many segments, read by somebody who comes later."""
    topic = new_topic(cluster, "whole", config=LONG if followed else SHORT)
    beside = new_topic(cluster, "beside", config=SHORT)
    client = producer(cluster, {"transactional.id": new_name("long")})
    client.init_transactions(WAIT_S_MAX)
    client.begin_transaction()
    for value in numbered():
        for name in (topic, beside):
            client.produce(name, value, partition=0)
        # One by one, so that each is a batch, and they spread over many segments.
        client.flush(WAIT_S_MAX)
    client.commit_transaction(WAIT_S_MAX)
    for name in (beside,) if followed else (beside, topic):
        wait_until(lambda name=name: log_start(cluster, name) > 0, "retention")  # type: ignore[misc]
    return tally(numbered(), read_all(cluster, topic), fired=int(log_start(cluster, beside) > 0))
