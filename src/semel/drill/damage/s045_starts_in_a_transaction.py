"""S045: a query starts behind the first records of a committed transaction."""

import json

from semel.drill.damage.records import (
    Damage,
    Reachable,
    commit_transaction,
    new_name,
    new_topic,
    numbered,
    read_all,
    tally,
)
from semel.drill.damage.spark_source import StreamingQuery, starting

# No marker and no index says where a transaction begins: a reader in its middle reads on.
MIDDLE = 4


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """The same committed transaction, from its first offset and from its middle."""
    topic = new_topic(cluster, "middle")
    commit_transaction(cluster, new_name("middle"), [(topic, 0, value) for value in numbered()])
    start = json.dumps({topic: {"0": 0 if followed else MIDDLE}})
    seen = StreamingQuery(cluster, topic, starting(start)).micro_batch()
    fired = int(len(read_all(cluster, topic)) > MIDDLE)  # there is a middle to start in
    return tally(numbered(), seen, fired=fired)
