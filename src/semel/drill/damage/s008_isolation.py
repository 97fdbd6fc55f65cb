"""S008: read_uncommitted, and a transaction is aborted and repeated."""

from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    Reachable,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    tally,
)


def abort_and_repeat(cluster: Reachable, topic: str) -> int:
    """Write the same records in a transaction that is aborted and in one that is committed; gives the aborts."""
    client = producer(cluster, {"transactional.id": new_name("repeats")})
    client.init_transactions(WAIT_S_MAX)
    for end in (client.abort_transaction, client.commit_transaction):
        client.begin_transaction()
        for value in numbered():
            client.produce(topic, value, partition=0)
        # Before the end: what was not sent yet would be dropped by an abort, and no reader could see it.
        client.flush(WAIT_S_MAX)
        end(WAIT_S_MAX)
    return 1


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A reader that does not ask for committed records sees the aborted ones as well."""
    topic = new_topic(cluster, "isolation")
    fired = abort_and_repeat(cluster, topic)
    seen = read_all(cluster, topic, isolation="read_committed" if followed else "read_uncommitted")
    return tally(numbered(), seen, fired=fired)
