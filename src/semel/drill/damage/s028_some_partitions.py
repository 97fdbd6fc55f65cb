"""S028: a transaction over three partitions, and a reader of one."""

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

PARTITIONS = 3


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """Records go round the partitions in one transaction."""
    topic = new_topic(cluster, "spread", partitions=PARTITIONS)
    records = [(topic, number % PARTITIONS, value) for number, value in enumerate(numbered())]
    commit_transaction(cluster, new_name("spread"), records)
    # Nothing is broken: reading a part of the partitions is all that it takes.
    seen = read_all(cluster, topic, partitions=range(PARTITIONS) if followed else (0,))
    return tally(numbered(), seen, fired=len({partition for _, partition, _ in records}) - 1)
