"""S001: acks=0, and a Produce request is lost on its way."""

from semel.broker.runtime.intercept import DropRequest
from semel.drill.damage.records import Damage, new_name, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """One request is dropped; only a producer that waits for an answer notices."""
    topic, client_id = new_topic(cluster, "acks"), new_name("acks")
    # Lost before the broker has it. With acks=0 no answer is missed, so nobody notices.
    hook = cluster.intercept("Produce", DropRequest(), where=lambda seen: seen.client_id == client_id)
    client = producer(cluster, {"client.id": client_id, "acks": "all" if followed else "0"})
    send_each(client, topic, numbered())
    return tally(numbered(), read_all(cluster, topic), fired=hook.fired)
