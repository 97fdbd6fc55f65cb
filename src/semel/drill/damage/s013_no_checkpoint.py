"""S013: the checkpoint is gone when the query is started again."""

from semel.drill.damage.records import Damage, Reachable, new_topic, numbered, producer, send_each, tally
from semel.drill.damage.spark_source import StreamingQuery, starting


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A query with its checkpoint goes on; one without begins again."""
    topic = new_topic(cluster, "progress")
    send_each(producer(cluster, {}), topic, numbered())
    first = StreamingQuery(cluster, topic, starting("earliest"))
    seen = first.micro_batch()
    fired = int(bool(seen))  # a query that has done something is started again
    kept = first.checkpoint if followed else None
    second = StreamingQuery(cluster, topic, starting("earliest"), kept)
    seen += second.micro_batch()
    return tally(numbered(), seen, fired=fired)
