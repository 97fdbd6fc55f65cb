"""S030: records that say they are a year old, in a topic that keeps a week."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
    log_start,
    new_topic,
    numbered,
    producer,
    read_all,
    send_each,
    tally,
    wait_until,
)
from semel.world.clock import RealClock

YEAR_MS, WEEK_MS = 365 * 86_400_000, 7 * 86_400_000
KEPT = {"segment.bytes": "150", "retention.ms": str(WEEK_MS)}


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """Retention believes the time in the record, or the broker's own."""
    kind = "LogAppendTime" if followed else "CreateTime"
    topic = new_topic(cluster, "times", config={**KEPT, "message.timestamp.type": kind})
    beside = new_topic(cluster, "beside", config=KEPT)
    old_ms = RealClock().wall_ms() - YEAR_MS
    for name in (topic, beside):
        send_each(producer(cluster, {}), name, numbered(), time_ms=old_ms)
    wait_until(lambda: log_start(cluster, beside) > 0, "retention")
    if not followed:
        wait_until(lambda: log_start(cluster, topic) > 0, "retention")
    return tally(numbered(), read_all(cluster, topic), fired=int(log_start(cluster, beside) > 0))
