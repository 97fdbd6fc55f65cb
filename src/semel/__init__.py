"""semel: delivery guarantees for Kafka and Spark pipelines, declared, enforced and proven."""

from importlib import import_module
from typing import TYPE_CHECKING

from semel.errors import SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.audit.running import audit
    from semel.clients.async_consumer import AsyncConsumer
    from semel.clients.async_producer import AsyncProducer
    from semel.clients.consumer import Consumer
    from semel.clients.deduplicator import Deduplicator
    from semel.clients.postgres_store import PostgresStore
    from semel.clients.producer import Producer
    from semel.clients.sqlite_store import SqliteStore
    from semel.engine.embedded import Cluster
    from semel.engine.tls import Security, Tls
    from semel.sinks.delta.sink import DeltaSink
    from semel.sinks.postgres.sink import PostgresSink
    from semel.spark.sink import KafkaSink
    from semel.spark.writing import stamp, write_batch, write_stream

__version__ = "0.1.0.dev0"
__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Cluster",
    "Consumer",
    "Deduplicator",
    "DeltaSink",
    "Guarantee",
    "KafkaSink",
    "PostgresSink",
    "PostgresStore",
    "Producer",
    "Security",
    "SemelError",
    "SqliteStore",
    "Tls",
    "__version__",
    "audit",
    "stamp",
    "write_batch",
    "write_stream",
]

_HOMES = {
    "AsyncConsumer": "semel.clients.async_consumer",
    "AsyncProducer": "semel.clients.async_producer",
    "Cluster": "semel.engine.embedded",
    "Consumer": "semel.clients.consumer",
    "Deduplicator": "semel.clients.deduplicator",
    "DeltaSink": "semel.sinks.delta.sink",
    "KafkaSink": "semel.spark.sink",
    "PostgresSink": "semel.sinks.postgres.sink",
    "PostgresStore": "semel.clients.postgres_store",
    "Producer": "semel.clients.producer",
    "Security": "semel.engine.tls",
    "SqliteStore": "semel.clients.sqlite_store",
    "Tls": "semel.engine.tls",
    "stamp": "semel.spark.writing",
    "write_batch": "semel.spark.writing",
    "write_stream": "semel.spark.writing",
}


def __dir__() -> list[str]:
    """What there is to use, also what is not imported yet."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import the heavier parts when they are first used, so that `import semel` stays quick."""
    if name == "audit":
        return import_module("semel.audit")  # a package that can be called
    if name in _HOMES:
        if _HOMES[name].startswith("semel.spark."):
            import_module("semel.spark").require_pyspark()
        return getattr(import_module(_HOMES[name]), name)
    found = getattr(import_module("semel.errors"), name, None)
    is_error = isinstance(found, type) and issubclass(found, SemelError)
    hint = f": from semel.errors import {name}" if is_error else ""
    raise AttributeError(f"module 'semel' has no attribute {name!r}{hint}")
