"""S014: the driver is killed between writing rows and writing down that it did, and runs the micro-batch again."""

from semel.drill.damage.stage import (
    Damage,
    Reachable,
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
    """Both runs start from the same checkpoint; only a sink with a ledger knows that it has the rows."""
    source, target, pipeline = new_topic(cluster, "source"), new_topic(cluster, "target"), new_name("pipeline")
    send_each(producer(cluster, {}), source, numbered())
    runs = 0
    for _ in range(2):
        if followed:
            copy_rest(cluster, source, target, pipeline)
        else:
            _copy_without_ledger(cluster, source, target)
        runs += 1
    return tally(numbered(), read_all(cluster, target), fired=runs - 1)


def _copy_without_ledger(cluster: Reachable, source: str, target: str) -> None:
    """What Spark's own Kafka sink does: rows through an idempotent producer, the position in the checkpoint."""
    reader = consumer(cluster, new_name("checkpoint"))
    send_each(producer(cluster, {"enable.idempotence": True}), target, read_rest(reader, source))
    reader.close()
