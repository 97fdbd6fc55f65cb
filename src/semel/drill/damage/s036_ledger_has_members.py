"""S036: somebody else commits to the group that is a pipeline's ledger."""

from semel.drill.damage.records import (
    Damage,
    Reachable,
    commit_position,
    committed_position,
    consumer,
    copy_rest,
    new_name,
    new_topic,
    numbered,
    producer,
    read_all,
    send_each,
    tally,
)


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """Between two runs of the pipeline another consumer puts the group's position back to the beginning."""
    source, target, ledger = new_topic(cluster, "source"), new_topic(cluster, "target"), new_name("pipeline")
    send_each(producer(cluster, {}), source, numbered())
    copy_rest(cluster, source, target, ledger)
    stranger = consumer(cluster, new_name("stranger") if followed else ledger)
    commit_position(stranger, source, 0)
    # In a group of its own the same commit does no harm.
    fired = int(committed_position(stranger, source) == 0)
    stranger.close()
    copy_rest(cluster, source, target, ledger)
    return tally(numbered(), read_all(cluster, target), fired=fired)
