"""semel: delivery guarantees for Kafka and Spark pipelines, declared, enforced and proven."""

from typing import TYPE_CHECKING

from semel.errors import SemelError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.engine.embedded import Cluster
    from semel.engine.tls import Security, Tls

__version__ = "0.1.0.dev0"
__all__ = ["Cluster", "Guarantee", "Security", "SemelError", "Tls", "__version__"]


def __getattr__(name: str) -> object:
    """Import the heavier parts when they are first used, so that `import semel` stays quick."""
    if name == "Cluster":
        from semel.engine.embedded import Cluster  # noqa: PLC0415

        return Cluster
    if name in ("Security", "Tls"):
        from semel.engine import tls  # noqa: PLC0415

        return getattr(tls, name)
    raise AttributeError(f"module 'semel' has no attribute {name!r}")
