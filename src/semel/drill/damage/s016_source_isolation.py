"""S016: a Spark source that reads uncommitted records, and a transaction is aborted and repeated."""

from semel.drill.damage.records import Damage, Reachable, new_topic, numbered, tally
from semel.drill.damage.s008_isolation import abort_and_repeat
from semel.drill.damage.spark_source import StreamingQuery, starting


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """The same topic through the source with either isolation level."""
    topic = new_topic(cluster, "input")
    fired = abort_and_repeat(cluster, topic)
    level = {"kafka.isolation.level": "read_committed" if followed else "read_uncommitted"}
    # The level is said both times: semel's source reads committed records unless told otherwise, Spark's the opposite.
    seen = StreamingQuery(cluster, topic, starting("earliest") | level).micro_batch()
    return tally(numbered(), seen, fired=fired)
