"""S015: failOnDataLoss=false, and records are deleted before the query has read them."""

from semel.clients.library import confluent
from semel.drill.damage.records import (
    WAIT_S_MAX,
    Damage,
    Reachable,
    admin_of,
    new_topic,
    numbered,
    producer,
    send_each,
    tally,
)
from semel.drill.damage.spark_source import StreamingQuery, starting
from semel.errors import SemelError

DELETED = 4


def run(cluster: Reachable, *, followed: bool) -> Damage:
    """A query that may skip goes on without a word; one that may not stops, and the records are sent again."""
    topic = new_topic(cluster, "gap")
    query = StreamingQuery(cluster, topic, starting("earliest", failOnDataLoss=str(followed).lower()))
    query.micro_batch()
    client = producer(cluster, {})
    send_each(client, topic, numbered())
    admin = admin_of(cluster)
    place = confluent().TopicPartition(topic, 0, DELETED)
    fired = sum(done.result(WAIT_S_MAX) is not None for done in admin.delete_records([place]).values())
    try:
        seen = query.micro_batch()
    except SemelError:
        # Told what is missing, somebody brings it back before the query goes on.
        send_each(client, topic, numbered()[:DELETED])
        seen = StreamingQuery(cluster, topic, starting("earliest")).micro_batch()
    return tally(numbered(), seen, fired=fired)
