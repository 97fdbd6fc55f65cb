"""S034: topics are created on demand, and a producer has a typing error in the name."""

from semel.drill.damage.records import Damage, Reachable, new_topic, numbered, producer, read_all, send_each, tally


def settings(*, followed: bool) -> dict[str, str]:
    """Whether brokers create what is asked for."""
    return {"auto.create.topics.enable": str(not followed).lower()}


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """An error is noticed and the name corrected; an acknowledgement is not."""
    del followed  # the brokers' setting is the whole difference
    topic = new_topic(cluster, "orders")
    client = producer(cluster, {"delivery.timeout.ms": 2_000, "topic.metadata.propagation.max.ms": 100})
    wrong = numbered()[:1]
    if not send_each(client, f"{topic}z", wrong):
        send_each(client, topic, wrong)
    return tally(wrong, read_all(cluster, topic), fired=len(wrong))
