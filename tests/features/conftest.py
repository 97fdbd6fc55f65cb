"""What the feature tests share: a cluster a module, JVMs, client drivers, topics of a test's own."""

from tests.clients.fixtures import cluster, driver, drivers, jvms, make_topic, topic
from tests.features.tickets import libraries, producer_of, tickets

__all__ = ["cluster", "driver", "drivers", "jvms", "libraries", "make_topic", "producer_of", "tickets", "topic"]
