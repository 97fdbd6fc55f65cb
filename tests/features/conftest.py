"""What the feature tests share: a cluster a module, JVMs, client drivers, topics of a test's own."""

from tests.clients.fixtures import cluster, driver, drivers, jvms, make_topic, topic

__all__ = ["cluster", "driver", "drivers", "jvms", "make_topic", "topic"]
