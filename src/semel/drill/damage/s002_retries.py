"""S002: no retries, and a Produce request is lost on its way."""

from semel.broker.runtime.intercept import DropRequest
from semel.drill.damage.records import Damage, new_name, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """The connection is cut under one request; without retries its record is given up."""
    topic, client_id = new_topic(cluster, "retries"), new_name("retries")
    hook = cluster.intercept("Produce", DropRequest(), where=lambda seen: seen.client_id == client_id)
    # Without the setting librdkafka tries until the delivery timeout.
    retries = {} if followed else {"retries": 0}
    send_each(producer(cluster, {"client.id": client_id, "acks": "all", **retries}), topic, numbered())
    return tally(numbered(), read_all(cluster, topic), fired=hook.fired)
