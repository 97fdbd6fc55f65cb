"""What the client tests share."""

from tests.clients.fixtures import cluster, driver, drivers, jvms, make_topic, topic

__all__ = ["cluster", "driver", "drivers", "jvms", "make_topic", "topic"]
