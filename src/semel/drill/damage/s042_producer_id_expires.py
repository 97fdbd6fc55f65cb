"""S042: the broker forgets a producer before it sends a batch again."""

from semel.broker.runtime.intercept import DropResponse
from semel.drill.damage.records import Damage, new_name, new_topic, numbered, producer, read_all, send_each, tally
from semel.engine.embedded import Cluster

# Slower than the broker forgets: the batch that comes again is one of an unknown producer.
SLOW = {"retry.backoff.ms": 1_000, "reconnect.backoff.ms": 1_000, "reconnect.backoff.max.ms": 1_000}


def settings(*, followed: bool) -> dict[str, str]:
    """Producers are remembered for a day, or for less than a retry takes."""
    return {"producer.id.expiration.ms": "86400000" if followed else "100"}


def run(cluster: Cluster, *, followed: bool) -> Damage:
    """The answer to the only request is lost, and the producer takes its time."""
    del followed  # the brokers' setting is the whole difference
    topic, client_id = new_topic(cluster, "memory"), new_name("memory")
    hook = cluster.intercept("Produce", DropResponse(), where=lambda seen: seen.client_id == client_id)
    client = producer(cluster, {"client.id": client_id, "enable.idempotence": True, **SLOW})
    send_each(client, topic, numbered()[:1])
    return tally(numbered()[:1], read_all(cluster, topic), fired=hook.fired)
