"""S017: startingOffsets=latest, and records are written before the query starts."""

from semel.drill.damage.records import Damage, Reachable, new_topic, numbered, producer, send_each, tally
from semel.drill.damage.spark_source import StreamingQuery, starting


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A new query begins at the beginning, or behind everything that is there."""
    topic = new_topic(cluster, "start")
    fired = len(send_each(producer(cluster, {}), topic, numbered()))
    seen = StreamingQuery(cluster, topic, starting("earliest" if followed else "latest")).micro_batch()
    return tally(numbered(), seen, fired=fired)
