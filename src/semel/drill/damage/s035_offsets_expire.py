"""S035: a group rests for longer than its offsets are kept."""

from semel.drill.damage.records import (
    NO_OFFSET,
    Damage,
    Reachable,
    commit_position,
    committed_position,
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

SHORT = {"segment.bytes": "150", "retention.bytes": "300", "retention.ms": "-1"}


def settings(*, followed: bool) -> dict[str, str]:
    """Offsets that are kept for a week, or for no time at all."""
    return {"offsets.retention.minutes": "10080" if followed else "0"}


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """What it had processed and committed, it reads again. A topic beside it tells when the broker has been round."""
    topic, group = new_topic(cluster, "rest"), new_name("rest")
    send_each(producer(cluster, {}), topic, numbered())
    before = consumer(cluster, group)
    seen = read_rest(before, topic)
    commit_position(before, topic, len(seen))
    before.close()
    # It has not joined: a group with members keeps its offsets however long it rests.
    after = consumer(cluster, group)
    beside = new_topic(cluster, "beside", config=SHORT)
    send_each(producer(cluster, {}), beside, numbered())
    wait_until(lambda: log_start(cluster, beside) > 0, "retention")
    if not followed:
        wait_until(lambda: committed_position(after, topic) == NO_OFFSET, "the offsets have expired")
    seen += read_rest(after, topic)
    after.close()
    return tally(numbered(), seen, fired=int(log_start(cluster, beside) > 0))
