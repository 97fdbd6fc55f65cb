"""S046: a copying process is killed after its transaction was committed and before its offsets were."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
    commit_transaction,
    consumer,
    copy_rest,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    read_rest,
    send_each,
    tally,
)


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """The second process begins where the group stands; the first one's transaction moved it, or nobody did."""
    source, target, owner = new_topic(cluster, "source"), new_topic(cluster, "target"), new_name("copying")
    send_each(producer(cluster, {}), source, numbered())
    kills = 0
    for _ in range(2):
        if followed:
            copy_rest(cluster, source, target, owner)
        else:
            _copy_with_offsets_apart(cluster, source, target, owner)
        kills += 1  # here it ends, before it could commit anything more
    return tally(numbered(), read_all(cluster, target), fired=kills - 1)


def _copy_with_offsets_apart(cluster: Reachable, source: str, target: str, owner: str) -> None:
    reader = consumer(cluster, owner)
    values = read_rest(reader, source)
    # The offsets would be committed next, by the consumer. It ends before that.
    commit_transaction(cluster, owner, [(target, 0, value) for value in values])
    reader.close()
