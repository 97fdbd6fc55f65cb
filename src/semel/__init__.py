"""semel: delivery guarantees for Kafka and Spark pipelines, declared, enforced and proven."""

from importlib import import_module
from typing import TYPE_CHECKING

from semel.errors import SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.engine.embedded import Cluster
    from semel.engine.tls import Security, Tls
    from semel.spark.sink import KafkaSink
    from semel.spark.writing import write_batch, write_stream

__version__ = "0.1.0.dev0"
__all__ = [
    "Cluster",
    "Guarantee",
    "KafkaSink",
    "Security",
    "SemelError",
    "Tls",
    "__version__",
    "write_batch",
    "write_stream",
]

_HOMES = {
    "Cluster": "semel.engine.embedded",
    "KafkaSink": "semel.spark.sink",
    "Security": "semel.engine.tls",
    "Tls": "semel.engine.tls",
    "write_batch": "semel.spark.writing",
    "write_stream": "semel.spark.writing",
}


def __getattr__(name: str) -> object:
    """Import the heavier parts when they are first used, so that `import semel` stays quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'semel' has no attribute {name!r}")
