"""semel: delivery guarantees for Kafka and Spark pipelines, declared, enforced and proven."""

__version__ = "0.1.0.dev0"
