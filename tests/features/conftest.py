"""What the feature tests share: a cluster a module, JVMs, client drivers, topics of a test's own."""

from tests.clients.fixtures import cluster, driver, drivers, jvms, make_topic, topic
from tests.features.clusters import apache_kafka, embedded_kafka, faulty, kafka
from tests.features.kills import workers
from tests.features.storing import opened, store
from tests.features.tickets import libraries, producer_of, tickets
from tests.support.postgres import postgres

__all__ = [
    "apache_kafka",
    "cluster",
    "driver",
    "drivers",
    "embedded_kafka",
    "faulty",
    "jvms",
    "kafka",
    "libraries",
    "make_topic",
    "opened",
    "postgres",
    "producer_of",
    "store",
    "tickets",
    "topic",
    "workers",
]
