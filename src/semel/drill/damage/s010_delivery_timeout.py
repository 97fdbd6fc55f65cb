"""S010: a record is given up before its first request can fail, and that request is lost."""

from semel.broker.runtime.intercept import After, DropRequest
from semel.drill.damage.records import Damage, new_name, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster

SHORT = {"delivery.timeout.ms": 300, "request.timeout.ms": 5_000}
ENOUGH = {"delivery.timeout.ms": 30_000, "request.timeout.ms": 300, "socket.timeout.ms": 300}


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """A request is never answered; a producer with time left asks again."""
    topic, client_id = new_topic(cluster, "delivery"), new_name("delivery")
    hook = cluster.intercept("Produce", DropRequest(then=After.SILENCE), where=lambda seen: seen.client_id == client_id)
    limits = ENOUGH if followed else SHORT
    client = producer(cluster, {"client.id": client_id, "enable.idempotence": followed, **limits})
    send_each(client, topic, numbered())
    cluster.disarm(hook)
    return tally(numbered(), read_all(cluster, topic), fired=hook.fired)
