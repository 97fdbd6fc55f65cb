"""S036: somebody else commits to the group that is a pipeline's ledger."""

from semel.clients.library import confluent
from semel.drill.damage.stage import (
    WAIT_S_MAX,
    Damage,
    Reachable,
    commit_position,
    consumer,
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
    """Between two runs of the pipeline another consumer puts the group's position back to the beginning."""
    source, target, ledger = new_topic(cluster, "source"), new_topic(cluster, "target"), new_name("pipeline")
    send_each(producer(cluster, {}), source, numbered())
    _copy(cluster, source, target, ledger)
    stranger = consumer(cluster, new_name("stranger") if followed else ledger)
    commit_position(stranger, source, 0)
    stranger.close()
    _copy(cluster, source, target, ledger)
    return tally(numbered(), read_all(cluster, target), fired=1)


def _copy(cluster: Reachable, source: str, target: str, ledger: str) -> None:
    """Copy what is left, with the position in the same transaction."""
    reader, writer = consumer(cluster, ledger), producer(cluster, {"transactional.id": ledger})
    values = read_rest(reader, source)
    writer.init_transactions(WAIT_S_MAX)
    writer.begin_transaction()
    for value in values:
        writer.produce(target, value, partition=0)
    end = confluent().TopicPartition(source, 0, len(numbered()))
    writer.send_offsets_to_transaction([end], reader.consumer_group_metadata(), WAIT_S_MAX)
    writer.commit_transaction(WAIT_S_MAX)
    reader.close()
