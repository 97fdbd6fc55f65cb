"""S003: no idempotence, and the answer to a Produce request is lost."""

from semel.broker.runtime.intercept import DropResponse
from semel.drill.damage.records import Damage, new_name, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """The broker has the record, the producer does not know, and sends it again."""
    topic, client_id = new_topic(cluster, "idempotence"), new_name("idempotence")
    # Only of this client: requests of other drills on the cluster must not use the hook up.
    hook = cluster.intercept("Produce", DropResponse(), where=lambda seen: seen.client_id == client_id)
    send_each(producer(cluster, {"client.id": client_id, "enable.idempotence": followed}), topic, numbered())
    return tally(numbered(), read_all(cluster, topic), fired=hook.fired)
